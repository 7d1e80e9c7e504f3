"""An organisation in which every URL has something to be about, and a person of each role."""

import json
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import pytest
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings as configured
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentlink.data import locate
from agentlink.models import AgentToken, PodLog
from agentlink.spaces import bind_namespace
from agentlink.tests.factories import make_cluster, make_node
from chamber.models import ApiToken, Scope, User
from chamber.oidc.groups import NamedGroup
from chamber.oidc.providers import Provider
from chamber.people.actions import new_link
from chamber.services.actions import create_service, make_token
from chamber.tests.factors.devices import give_passkey
from chamber.tokens import TokenRequest, create_token
from teams import actions
from teams.actors import Actor, Via
from teams.models import Pool, Role, Team
from teams.tests.factories import bind, make_org, make_pool, make_team, make_user, member, set_share
from workloads.credentials.actions import create_credential
from workloads.data.actions import create_source
from workloads.environments.actions import create_environment
from workloads.models import CredentialKind, EndReason, Phase, SourceKind, Status
from workloads.tests.factories import make_array, make_workload


def patterns(resolver: URLResolver, namespace: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Return every URL of the project by its full name."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from patterns(pattern, inner)
        else:
            assert pattern.name, f"{pattern} has no name"
            yield f"{namespace}{pattern.name}", pattern


ALL_URLS = list(patterns(get_resolver()))
URLS = dict(ALL_URLS)

TEAM_EDIT = {"version": "1", "name": "NLP", "slug": "nlp"}
ROW = {"version": "1", "share_version": "1", "reservation": "8", "bursting_priority": "2"}
POOL = {
    "name": "Spare", "slug": "spare", "order": "2", "version": "1", "queueing": "backfill",
    "elastic_preemption": "priority", "placement": "binpack", "fairness": "entitlement", "sharing": "fractions",
    "usage_half_life_seconds": "3600", "min_runtime_seconds": "0",
}  # fmt: skip
CLASS = {"tier": "low", "max_retries": "1", "on_preemption": "stop", "sharing": "never", "order": "7"}
WORKLOAD = {"name": "new", "team": "nlp", "image": "registry.example/train:1"}
FORM = {**WORKLOAD, "job_class": "experiment", "priority": "50", "pods": "1", "gpus": "1", "tab": "form"}
PEOPLE_CSV = "username,team,role\nbeginner,nlp,viewer\n"

BODIES: dict[str, dict[str, Any]] = {
    "account_login": {"login": "owner", "password": "difference engine"},
    "chamber:tokens": {"name": "laptop", "scope": "read", "expires_in_days": "5"},
    "account_change_password": {
        "oldpassword": "difference engine",
        "password1": "rotor glade mosaic 41",
        "password2": "rotor glade mosaic 41",
    },
    "account_password_strength": {"of": "own", "password1": "rotor glade mosaic 41"},
    "account_reset_password": {"email": "nobody@example.org"},
    "chamber:settings": {"name": "Somebody Else"},
    "chamber:sign-in": {"version": "0", "required": "on", "grace_days": "7"},
    "api-sign-in": {"second_factor": {"required": True, "grace_days": 7}},
    "chamber:sign-in-group-add": {"provider": "acme", "group": "ml", "team": "nlp", "role": "viewer"},
    "api-sign-in-groups": {"provider": "acme", "group": "ml", "team": "nlp", "role": "viewer"},
    "chamber:class-new": {"name": "Sweep", "slug": "sweep", **CLASS},
    "chamber:class-edit": {"name": "Interactive", "version": "1", **CLASS},
    "chamber:class-act": {"act": "retire"},
    "chamber:tier-new": {"name": "Urgent", "slug": "urgent", "priority": "90", "least_role": "lead"},
    "chamber:tier-edit": {"name": "High", "version": "1", "priority": "80", "least_role": "lead"},
    "chamber:tier-act": {"act": "retire"},
    "teams:narrow": {"training-version": "0", "training-max_retries": "0"},
    "account_reauthenticate": {"password": "difference engine"},
    "chamber:factor-app": {"code": "000000"},
    "chamber:factor-passkey": {"name": "laptop"},
    "chamber:factor-rename": {"name": "key ring"},
    "chamber:people": {"username": "beginner", "team": "nlp", "role": "viewer"},
    "chamber:people-csv": {"text": PEOPLE_CSV},
    "chamber:people-csv-add": {"text": PEOPLE_CSV},
    "chamber:person": {"name": "Somebody Else"},
    "chamber:person-disable": {"workloads": "leave"},
    "chamber:person-role-add": {"team": "nlp", "role": "researcher"},
    "chamber:link": {"password1": "rotor glade mosaic 41", "password2": "rotor glade mosaic 41"},
    "teams:create": {"parent": "nlp", "name": "Speech", "bursting_priority": "1"},
    "teams:edit": ROW,
    "teams:rename": TEAM_EDIT,
    "teams:move": {"version": "1", "parent": "nlp"},
    "teams:rules": {"version": "0", "researcher_elastic": "50"},
    "teams:member-add": {"who": "newcomer", "role": "viewer"},
    "chamber:groups": {"name": "night-shift"},
    "chamber:group": {"who": "newcomer"},
    "api-groups": {"name": "night-shift"},
    "api-group-people": {"who": "newcomer"},
    "teams:pool-new": POOL,
    "teams:pool-edit": {**POOL, "slug": "main", "name": "Main"},
    "workloads:submit": FORM,
    "workloads:bulk": {"act": "hold", "id": ["train-1"]},
    "scheduling:preview": FORM,
    "scheduling:what-if-team": ROW,
    "scheduling:what-if-drain": {"node": "east/n1"},
    "scheduling:what-if-pool": {**POOL, "slug": "main", "name": "Main"},
    "agentlink:connect": {"name": "west", "backend": "native"},
    "agentlink:bind-namespace": {"team": "idle", "namespace": "idle-jobs"},
    "api-login": {"username": "owner", "password": "difference engine"},
    "api-tokens": {"name": "job", "scope": "read"},
    "chamber:service-accounts": {"name": "robot", "team": "nlp", "role": "viewer"},
    "chamber:service-account": {"description": "nightly", "team": "nlp"},
    "chamber:service-account-tokens": {"name": "more", "scope": "read", "expires_in_days": "5"},
    "chamber:service-account-token-rotate": {"overlap_minutes": "60"},
    "chamber:service-account-limits": {"streams": "40"},
    "chamber:service-account-disable": {"workloads": "leave"},
    "api-service-accounts": {"name": "robot", "team": "nlp", "role": "viewer"},
    "api-service-account": {"description": "nightly"},
    "api-service-account-tokens": {"name": "more", "scope": "read"},
    "chamber:data-sources": {"name": "new", "team": "nlp", "kind": "claim"},
    "chamber:data-source": {"writable": "on"},
    "agentlink:data-locate": {"cluster": "east", "claim": "imagenet"},
    "api-data-sources": {"name": "new", "team": "nlp", "kind": "claim"},
    "api-data-source": {"writable": True},
    "api-data-locations": {"cluster": "east", "claim": "imagenet"},
    "chamber:environments": {"name": "new", "team": "nlp", "image": "train:1"},
    "chamber:environment": {"image": "train:2"},
    "chamber:environment-act": {"act": "archive"},
    "api-environments": {"name": "new", "team": "nlp", "image": "train:1"},
    "api-environment": {"archived": True},
    "api-environment-versions": {"image": "train:2"},
    "chamber:credentials": {"name": "new", "type": "token", "token": "x"},
    "chamber:credential": {"token": "x"},
    "chamber:team-credential": {"token": "x"},
    "api-credentials": {"name": "new", "type": "token", "values": {"token": "x"}},
    "api-credential": {"values": {"token": "x"}},
    "api-team-credential": {"values": {"token": "x"}},
    "api-people": {"username": "beginner", "team": "nlp", "role": "viewer"},
    "api-people-csv": {"csv": PEOPLE_CSV},
    "api-person": {"name": "Somebody Else"},
    "api-teams": {"parent": "nlp", "name": "Speech"},
    "api-team": {"bursting_priority": 3},
    "api-team-move": {"parent": "nlp"},
    "api-members": {"who": "newcomer", "role": "viewer"},
    "api-member": {"role": "researcher"},
    "api-rules": {"largest_workload": 4},
    "api-classes": {"slug": "sweep", "tier": "low"},
    "api-class": {"max_retries": 2},
    "api-tiers": {"slug": "urgent", "priority": 90},
    "api-tier": {"least_role": "lead"},
    "api-team-class": {"max_retries": 0},
    "api-share": {"reservation": 4},
    "api-team-edits": {"edits": [{"team": "nlp", "version": 1, "bursting_priority": 4}]},
    "api-declared": {"edits": [{"team": "nlp", "version": 1, "bursting_priority": 4}]},
    "api-pools": {"name": "Spare", "slug": "spare"},
    "api-pool": {"paused": True},
    "api-workloads": WORKLOAD,
    "api-preview": WORKLOAD,
    "api-clusters": {"name": "west"},
    "api-namespaces": {"team": "idle", "namespace": "idle-jobs"},
    "api-what-if": {"teams": [{"team": "nlp", "bursting_priority": 4}]},
}

PROVIDER = Provider(id="acme", name="Acme SSO", issuer="http://127.0.0.1:9", client_id="chamber")
"""One that cannot be reached."""
SETTINGS: dict[str, Any] = {
    "CHAMBER_RING": "builtins.list",
    "MAIL": True,
    "KEEPS_MAILS": True,
    "CREDENTIALS_KEYS": ["a-key-for-credentials-of-tests-0123456789"],
    "IDENTITY_PROVIDERS": (PROVIDER,),
}
GPU_USERS = NamedGroup("acme", "gpu-users", known=True).id
KEPT_MAIL = "0199c1f2-7d3a-7000-8000-00000000aaaa"

TEAMS_BY_ACT = {"move": "idle", "archive": "idle", "unarchive": "old", "delete": "idle"}
NOBODY = "0199c1f2-7d3a-7000-8000-000000000003"
"""The id of an attempt that there is not: its door takes an attempt's own token alone."""
WORKLOADS_BY_ACT = {"release": "held-1", "requeue": "ended-1", "logs": "ended-1", "watch": "ended-1"}


class World:
    """acme                 org-admin, operator, auditor
    ├── research         viewer, mate, owner, lead, admin
    │   ├── nlp          the workloads and an array, owner's; a guest, whose role can be changed
    │   ├── idle
    │   └── old          archived
    └── production       outsider
    """

    def __init__(self) -> None:
        mails = configured.EMAIL_FILE_PATH = mkdtemp()
        finalize(self, rmtree, mails)
        Path(mails, f"{KEPT_MAIL}.eml").write_text("To: ada@example.org\nSubject: Hello\n\nHello.\n")
        acme = make_org("Acme")
        research, production = make_team(acme, "Research"), make_team(acme, "Production")
        self.nlp = make_team(research, "NLP")
        make_team(research, "Idle")
        make_team(research, "Old", archived_at=timezone.now())
        self.users = self._users(acme, research, production)
        make_user("newcomer")
        self.guest = bind(make_user("guest"), self.nlp, Role.VIEWER)
        self.crew = Group.objects.create(name="crew")
        if self.guest.user is not None:
            self.crew.user_set.add(self.guest.user)
        self.pool = make_pool("Main")
        set_share(research, self.pool, gpus=8)
        set_share(self.nlp, self.pool, gpus=4)
        self._workloads(self.nlp, self.users["owner"], self.pool)
        cluster = make_cluster("east")
        make_node(cluster, "n1", pool=self.pool)
        self.agent_token = AgentToken.objects.create(cluster=cluster, token_hash="x" * 64, prefix="cha_")
        bind_namespace(by=Actor.system("test"), cluster=cluster, team=self.nlp, namespace="nlp-jobs")
        self.own_token: ApiToken = create_token(
            user=self.users["owner"], name="laptop", scope=Scope.READ, days=1
        )[0]

        self.factor = give_passkey(self.users["mate"])
        if self.guest.user is not None:
            give_passkey(self.guest.user)
            SocialAccount.objects.create(user=self.guest.user, provider="acme", uid="guest")
        self.group_role = actions.set_provider_role(
            by=Actor.system("test"), provider="acme", name="gpu-users", team=self.nlp, role=Role.VIEWER
        )
        self.service = create_service(by=Actor.system("test"), name="ci", team=self.nlp, role=Role.RESEARCHER)
        wanted = TokenRequest("runner", Scope.SUBMIT)
        self.service_token = make_token(by=Actor.system("test"), account=self.service, wanted=wanted)[0]
        for by, name, team in ((self.users["owner"], "mine", None), (None, "shared", self.nlp)):
            create_credential(
                by=Actor.person(by, Via.PAGE) if by else Actor.system("test"),
                name=name,
                kind=CredentialKind.TOKEN,
                content={"token": "x"},
                team=team,
            )
        source = create_source(
            by=Actor.system("test"), team=self.nlp, name="imagenet", kind=SourceKind.CLAIM, details={}
        )
        self.location = locate(
            by=Actor.system("test"), source=source, cluster=cluster, namespace="other", claim="imagenet"
        )
        create_environment(
            by=Actor.system("test"), team=self.nlp, name="pytorch", values={"image": "train:1"}
        )
        self.own_session = self._session(self.users["owner"])
        self.link = new_link(by=Actor.system("test"), user=make_user("invited"))

    @staticmethod
    def _session(user: User) -> UserSession:
        elsewhere = Client()
        elsewhere.force_login(user)
        key = elsewhere.session.session_key or ""
        return UserSession.objects.create(user=user, session_key=key, ip="192.0.2.7", user_agent="x")

    @staticmethod
    def _users(acme: Team, research: Team, production: Team) -> dict[str, User]:
        return {
            "stranger": make_user("stranger"),
            "outsider": member(production, Role.RESEARCHER, "outsider"),
            "viewer": member(research, Role.VIEWER, "viewer"),
            "mate": member(research, Role.RESEARCHER, "mate"),
            "owner": member(research, Role.RESEARCHER, "owner", password="difference engine"),
            "lead": member(research, Role.LEAD, "lead"),
            "admin": member(research, Role.ADMIN, "admin"),
            "org-admin": member(acme, Role.ORG_ADMIN, "org-admin"),
            "operator": member(acme, Role.OPERATOR, "operator"),
            "auditor": member(acme, Role.AUDITOR, "auditor"),
        }

    @staticmethod
    def _workloads(team: Team, owner: User, pool: Pool) -> None:
        make_workload(team, owner, slug="train-1")
        make_workload(team, owner, slug="held-1", held=True, reason_code="held")
        # Long enough ago that nobody waits for its log.
        now = timezone.now() - timedelta(hours=1)
        ended = make_workload(
            team, owner, slug="ended-1", status=Status.CANCELLED, finished_at=now, reason_code="cancelled"
        )
        make_array(team, owner, slug="sweep-1")
        attempt = ended.attempts.create(
            number=1, pool=pool, phase=Phase.OVER, allocation=[], gpus_milli=1000, queued_at=now, ended_at=now,
            released_at=now, end_reason=EndReason.CANCELLED,
        )  # fmt: skip
        PodLog.objects.create(attempt=attempt, pod_index=0, content=zlib.compress(b"one"), size_bytes=3)

    def address(self, name: str) -> str:
        """Return the address of a URL, about the thing of this world that fits it."""
        act = name.rpartition(":")[2].rpartition("-")[2]
        workload = WORKLOADS_BY_ACT.get(act, "train-1")
        slug = TEAMS_BY_ACT.get(act, "nlp")
        if "workload" in name or name == "scheduling:explain":
            slug = workload
        if "array" in name:
            slug = "sweep-1"
        elif name in {
            "scheduling:what-if-pool",
            "agentlink:pool",
            "agentlink:bind-pool",
            "api-cluster-pool",
            "api-pool",
            "teams:pool-edit",
            "teams:pool-delete",
            "scheduling:queue-pool",
            "scheduling:queue-next",
        }:
            slug = "main"
        elif name in {"api-class", "chamber:class-edit", "chamber:class-act"}:
            slug = "interactive"
        elif name in {"api-tier", "chamber:tier-edit", "chamber:tier-act"}:
            slug = "high"
        agents = name.startswith(("agentlink:", "api-cluster"))
        values = {
            "slug": slug,
            "pool_slug": "main",
            "class_slug": "training",
            "name": "ci" if "service-account" in name else "east",
            "namespace": "nlp-jobs",
            "binding_id": self.group_role.pk if self.group_role and "group" in name else self.guest.pk,
            "group_id": GPU_USERS if "provider-group" in name else self.crew.pk,
            "username": "guest",
            "provider_id": "acme",
            "path": "Users",
            "factor_id": self.factor.pk,
            "mail_id": KEPT_MAIL,
            "session_id": self.own_session.pk,
            "secret": self.link.secret,
            "uidb36": "nobody",
            "key": "nothing-known",
            "attempt_id": NOBODY,
            "token_id": self.agent_token.pk if agents else self.own_token.pk,
        }
        if "credential" in name:
            values |= {"name": "shared" if "team" in name else "mine", "team": "nlp"}
        if "data-" in name:
            values |= {"name": "imagenet", "team": "nlp", "location_id": self.location.pk}
        if "environment" in name:
            values |= {"name": "pytorch", "team": "nlp"}
        if "service-account" in name:
            values["token_id"] = self.service_token.pk
        wanted = URLS[name].pattern.converters
        return reverse(name, kwargs={key: values[key] for key in wanted})

    def answer(self, client: Client, method: str, name: str, headers: dict[str, str]) -> Any:
        """Return what is answered; whatever it changed is undone."""
        cache.clear()  # of tries
        body: Any = {} if method == "GET" else BODIES.get(name, {})
        content: dict[str, Any] = {"data": body}
        if name.startswith("api-") and method != "GET":
            content = {"data": json.dumps(body), "content_type": "application/json"}
        # A row of the tree exists only as a fragment.
        part = {"X-Chamber-Fragment": "1"} if name == "teams:row" else {}
        told = {"If-Match": "*"} | part | headers
        with transaction.atomic():
            answer = getattr(client, method.lower())(self.address(name), headers=told, **content)
            transaction.set_rollback(True)
        return answer


@pytest.fixture
def world(db: None, settings: Settings) -> World:
    for name, value in SETTINGS.items():
        setattr(settings, name, value)
    cache.clear()
    return World()
