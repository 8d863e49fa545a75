"""`penstock webhooks`: the addresses that are told of events, and whether they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Group, Invocation

if TYPE_CHECKING:
    from penstock.config.settings import WebhookSettings


@click.group(cls=Group)
def webhooks() -> None:
    """Addresses that are told of events.

    They are named in the configuration, and `penstock up` sends to them when jobs end, when budgets run out, and when
    somebody must decide.

    \b
    Examples:
      penstock webhooks list
      penstock webhooks test ops
    """


@webhooks.command("list")
@click.pass_obj
def list_(call: Invocation) -> None:
    """All webhooks, and what they are told of.

    Of an address only the host is shown: the rest may be a secret.
    """
    from penstock.cli.output import plain_table

    hooks = sorted(call.settings().webhooks.items())
    call.out.data({"webhooks": [_line(name, hook) for name, hook in hooks]})
    if not hooks:
        call.out.tell("There are no webhooks: name them in penstock.yaml, under `webhooks:`.")
    elif not call.json:
        rows = [
            [name, _host(hook), hook.tenant or "all", ", ".join(hook.workflows or ("all",)), ", ".join(hook.events)]
            for name, hook in hooks
        ]
        call.out.result(plain_table(["NAME", "HOST", "TENANT", "WORKFLOWS", "EVENTS"], rows))


@webhooks.command()
@click.argument("name")
@click.pass_obj
def test(call: Invocation, name: str) -> int:
    """Send one signed request to a webhook now.

    Its event is webhook.test. The exit code is 0 if the receiver answered 2xx.
    """
    from penstock.cli import sessions
    from penstock.cli.main import DONE, FAILED
    from penstock.engine.clock import SystemClock
    from penstock.engine.errors import NotFound, StepError
    from penstock.service.webhooks import Sender, trial

    settings = call.settings()
    hook = settings.webhooks.get(name)
    if hook is None:
        known = ", ".join(sorted(settings.webhooks)) or "none"
        raise NotFound(f"there is no webhook {name!r} in the configuration; there are: {known}")
    now = SystemClock().now()

    async def main() -> tuple[int | None, str | None]:
        sender = Sender(settings.webhooks, public_url=settings.service.public_url)
        try:
            return (await sender.post(trial(name, now), now=now)).status_code, None
        except StepError as error:
            return None, str(error)
        finally:
            await sender.close()

    status, error = sessions.run(main())
    taken = status is not None and 200 <= status < 300
    call.out.data({"webhook": _line(name, hook), "delivered": taken, "status": status, "error": error})
    if taken:
        call.out.tell(f"Webhook {name} took it: {_host(hook)} answered {status}.")
    else:
        call.out.wrong(error or f"Webhook {name} did not take it: {_host(hook)} answered {status}.")
    return DONE if taken else FAILED


def _line(name: str, hook: WebhookSettings) -> dict[str, Any]:
    return {
        "name": name,
        "host": _host(hook),
        "events": list(hook.events),
        "workflows": None if hook.workflows is None else list(hook.workflows),
        "tenant": hook.tenant,
    }


def _host(hook: WebhookSettings) -> str:
    """The rest of an address may be all that a receiver asks for, so it is treated like a secret."""
    from urllib.parse import urlsplit

    parts = urlsplit(hook.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
