"""The command line. Only click is imported before a command is chosen, so that `--help` answers at once."""

import click

from chamber import __version__
from chamber.cli.lazy import LazyGroup

_COMMANDS = "chamber.cli.commands"

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Signing in": {
        "login": (f"{_COMMANDS}.account:login", "Sign in to a server and keep a token for it."),
        "logout": (f"{_COMMANDS}.account:logout", "Revoke the kept token and forget it."),
        "whoami": (f"{_COMMANDS}.account:whoami", "Show who you are, and your roles."),
        "version": (f"{_COMMANDS}.version:version", "Show the versions of command line, server and agents."),
        "token": (f"{_COMMANDS}.tokens:token", "Create, list and revoke API tokens."),
    },
    "Workloads": {
        "submit": (f"{_COMMANDS}.submit:submit", "Submit one workload by flags, or several from a file."),
        "run": (f"{_COMMANDS}.run:run", "Submit one workload and follow it until it ends."),
        "list": (f"{_COMMANDS}.workloads:list_", "List workloads."),
        "get": (f"{_COMMANDS}.workloads:get", "Show workloads by name."),
        "describe": (f"{_COMMANDS}.describe:describe", "Show all that is known of a workload."),
        "why": (f"{_COMMANDS}.workloads:why", "Say why a workload waits, and when it is expected to start."),
        "watch": (f"{_COMMANDS}.follow:watch", "Follow a workload's events until it ends."),
        "logs": (f"{_COMMANDS}.logs:logs", "Print what a pod has written, or follow what it writes."),
        "wait": (f"{_COMMANDS}.follow:wait", "Wait until workloads have ended, or run."),
        "cancel": (f"{_COMMANDS}.workloads:cancel", "Cancel workloads."),
        "hold": (f"{_COMMANDS}.workloads:hold", "Keep pending workloads from starting."),
        "release": (f"{_COMMANDS}.workloads:release", "Let held workloads start again."),
        "requeue": (f"{_COMMANDS}.workloads:requeue", "Put ended workloads back into the queue."),
        "data": (f"{_COMMANDS}.data:data", "Keep what workloads mount by name."),
        "environments": (
            f"{_COMMANDS}.environments:environments",
            "Keep images with their settings, of teams.",
        ),
        "arrays": (f"{_COMMANDS}.arrays:arrays", "Show arrays of workloads, and act on all their members."),
        "credentials": (f"{_COMMANDS}.credentials:credentials", "Keep secrets that pods of workloads get."),
    },
    "The organisation": {
        "teams": (f"{_COMMANDS}.organisation:teams", "Show the tree of teams with guarantees and use."),
        "pools": (f"{_COMMANDS}.organisation:pools", "Show the pools and what is free in them."),
        "queue": (f"{_COMMANDS}.organisation:queue", "Show a pool's queue in order, with reasons."),
        "top": (f"{_COMMANDS}.top:top", "Show who holds GPUs, and what they make of them."),
        "classes": (f"{_COMMANDS}.classes:classes", "Show, change and narrow job classes."),
        "tiers": (f"{_COMMANDS}.classes:tiers", "Show and change priority tiers."),
        "people": (f"{_COMMANDS}.people:people", "Let people in, and put them out."),
        "service-accounts": (
            f"{_COMMANDS}.services:service_accounts",
            "Make what programs sign in as, and their tokens.",
        ),
        "audit": (f"{_COMMANDS}.audit:audit", "Show who did what; export and verify the audit trail."),
        "diff": (f"{_COMMANDS}.apply:diff", "Show what a file of pools and teams would change."),
        "apply": (f"{_COMMANDS}.apply:apply", "Make pools and teams as a file says."),
    },
    "Operating": {
        "clusters": (
            f"{_COMMANDS}.clusters:clusters",
            "Show clusters, and bind them to the pools that they may serve.",
        ),
        "delete": (f"{_COMMANDS}.delete:delete", "Delete a cluster, pool or team that nothing hangs on."),
        "simulate": (f"{_COMMANDS}.operate:simulate", "Run the scheduler on a described organisation."),
        "demo": (f"{_COMMANDS}.operate:demo", "Run Chamber with an example organisation on this machine."),
        "agent": (f"{_COMMANDS}.operate:agent", "Run the agent that connects a cluster to a server."),
    },
    "Deploying": {
        "serve": (f"{_COMMANDS}.serve:serve", "Serve pages, API and sockets."),
        "worker": (f"{_COMMANDS}.serve:worker", "Run the scheduler, or the other duties."),
        "beat": (f"{_COMMANDS}.serve:beat", "Send each duty at its interval."),
        "migrate": (f"{_COMMANDS}.serve:migrate", "Bring the database up to date with this version."),
        "setup": (f"{_COMMANDS}.serve:setup", "Make the organisation and its first admin."),
        "reencrypt": (f"{_COMMANDS}.console:reencrypt", "Encrypt stored secrets with the newest key."),
        "remove-factors": (
            f"{_COMMANDS}.console:remove_factors",
            "Remove somebody's second factors, from the server's console.",
        ),
        "doctor": (f"{_COMMANDS}.doctor:doctor", "Say what is wrong with a deployment."),
        "replay": (f"{_COMMANDS}.replay:replay", "Decide a stored cycle again and compare."),
    },
}

EPILOG = """
\b
Environment:
  CHAMBER_URL     the server, instead of the one of `chamber login`
  CHAMBER_TOKEN   the token, instead of the kept one
  CHAMBER_CA      the certificate of the authority that signed the server's
  NO_COLOR        if set, nothing is coloured

\b
Exit status:
  0 done             1 failed            2 usage            3 not found
  4 not allowed      5 conflict          6 rejected         7 timeout
  8 the workload failed                  9 it was preempted      130 Ctrl-C
"""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="chamber", message="%(prog)s %(version)s")
def main() -> None:
    """Share GPU clusters by a tree of teams: submit, follow and steer workloads."""
