"""All checks in order, each made only where what it needs was found in order."""

import logging
from collections.abc import Iterable, Iterator

from chamber.doctor import (
    address,
    audit,
    bell,
    database,
    disk,
    environment,
    growth,
    mail,
    people,
    processes,
    providers,
    secrets,
)
from chamber.doctor.finding import Check, DoctorFinding, Examination, Fact, Needs

logger = logging.getLogger(__name__)

CHECKS = (
    Check("secret", environment.secret),
    Check("debug", environment.debug),
    Check("hosts", environment.hosts),
    Check("origins", environment.origins),
    Check("tls", environment.tls),
    Check("proxies", environment.proxies),
    Check("names", environment.names),
    Check("database", database.answers, gives=Needs.DATABASE),
    Check("migrations", database.migrations, Needs.DATABASE, gives=Needs.MIGRATIONS),
    Check("tables", database.tables, Needs.MIGRATIONS, gives=Needs.TABLES),
    Check("stored-secrets", secrets.stored, Needs.TABLES),
    Check("credentials", secrets.credentials, Needs.TABLES),
    Check("second-factors", people.second_factors, Needs.TABLES),
    Check("providers", providers.answers),
    Check("provider-roles", providers.roles, Needs.TABLES),
    Check("database-clock", database.clock, Needs.DATABASE),
    Check("transactions", database.transactions, Needs.DATABASE),
    Check("connections", database.connections, Needs.DATABASE),
    Check("disk", disk.disk, Needs.DATABASE),
    Check("redis", bell.answers, gives=Needs.REDIS),
    Check("redis-clock", bell.clock, Needs.REDIS),
    Check("channel-layer", bell.channel_layer, Needs.REDIS),
    Check("duties", processes.duties, Needs.TABLES, also=Needs.REDIS),
    Check("scheduler", processes.scheduler, Needs.TABLES, also=Needs.REDIS),
    Check("web", processes.web, Needs.TABLES),
    Check("live", processes.live, Needs.TABLES, gives=Needs.LIVE),
    Check("versions", processes.versions, Needs.TABLES),
    Check("address", address.web, gives=Needs.ADDRESS),
    Check("sockets", address.live, Needs.ADDRESS, also=Needs.LIVE, gives=Needs.SOCKETS),
    Check("certificate", address.certificate),
    Check("mail", mail.mail),
    Check("clusters", processes.clusters, Needs.TABLES),
    # Agents that are not reached for want of sockets are no fault of theirs.
    Check("heartbeats", processes.heartbeats, Needs.TABLES, also=Needs.SOCKETS),
    Check("agents", processes.agents, Needs.TABLES),
    Check("audit", audit.chain, Needs.TABLES),
)


def examine(checks: Iterable[Check] = CHECKS) -> Examination:
    """Make the checks; one that fails by itself is a finding too."""
    result = Examination()
    given = {Needs.NOTHING}
    causes: dict[Needs, Needs] = {}
    for check in checks:
        missing = next((need for need in (check.needs, check.also) if need not in given), None)
        if missing is not None:
            result.left_out.append(check.name)
            result.lacks[check.name] = causes.get(missing, missing)
            if check.gives is not None:
                causes[check.gives] = result.lacks[check.name]
            continue
        told = list(_look(check))
        found = [each for each in told if isinstance(each, DoctorFinding)]
        result.facts += [(check.name, each) for each in told if isinstance(each, Fact)]
        result.made.append(check.name)
        result.findings += [(check.name, finding) for finding in found]
        if check.gives is not None and not found:
            given.add(check.gives)
    if Needs.TABLES in given:
        result.growth = growth.measure()
    return result


def _look(check: Check) -> Iterator[DoctorFinding | Fact]:
    try:
        yield from check.look()
    except Exception as error:
        logger.debug("The check %r failed.", check.name, exc_info=error)
        yield DoctorFinding(
            f"The check {check.name!r} failed: {type(error).__name__}: {error}".rstrip(".") + ".",
            "Run `chamber doctor` with CHAMBER_LOG_LEVEL=DEBUG for the whole of it, and report it.",
        )
