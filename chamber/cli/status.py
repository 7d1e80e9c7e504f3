"""Exit statuses, and how what went wrong becomes one of them."""

from enum import IntEnum
from typing import IO, Any

import click

from chamber.words import placed


class Exit(IntEnum):
    """What a script may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    CONFLICT = 5
    REJECTED = 6
    TIMEOUT = 7
    WORKLOAD_FAILED = 8
    WORKLOAD_PREEMPTED = 9
    INTERRUPTED = 130


_BY_HTTP = {
    401: Exit.NOT_ALLOWED,
    403: Exit.NOT_ALLOWED,
    404: Exit.NOT_FOUND,
    408: Exit.TIMEOUT,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    428: Exit.CONFLICT,
    504: Exit.TIMEOUT,
}

_BY_WORKLOAD = {
    "completed": Exit.DONE,
    "failed": Exit.WORKLOAD_FAILED,
    "cancelled": Exit.WORKLOAD_FAILED,
    "preempted": Exit.WORKLOAD_PREEMPTED,
}


def of_http(status: int) -> Exit:
    """Return the exit status of a refusal by the server."""
    return _BY_HTTP.get(status, Exit.REJECTED if 400 <= status < 500 else Exit.FAILED)


def of_workload(status: str) -> Exit | None:
    """Return the exit status of a workload's end; None while it has not ended."""
    return _BY_WORKLOAD.get(status)


class Failure(click.ClickException):
    """A sentence for stderr, a line for each field it is about, and the exit status.

    `http_status` and `code` are those of the server's answer, where it is one.
    """

    def __init__(
        self,
        message: str,
        exit_status: Exit = Exit.FAILED,
        *,
        fields: dict[str, str] | None = None,
        http_status: int | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.exit_code = int(exit_status)  # type: ignore[misc]
        self.fields = fields or {}
        self.http_status = http_status
        self.code = code

    def with_hint(self, hint: str) -> "Failure":
        """Return the same failure with a further sentence."""
        message = f"{self.message} {hint}"
        status = Exit(self.exit_code)
        return Failure(message, status, fields=self.fields, http_status=self.http_status, code=self.code)

    def show(self, file: IO[Any] | None = None) -> None:
        """Write it to stderr."""
        click.echo(f"Error: {self.message}", file=file, err=True)
        for name, sentence in self.fields.items():
            told = placed(name, sentence)
            if self.message not in {sentence, told} and not self.message.endswith(f": {sentence}"):
                click.echo(f"  {told}", file=file, err=True)
