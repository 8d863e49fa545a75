"""`python -m penstock.gemini_local`: the process that `launch.py` starts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    arguments = _arguments()
    if arguments.detach:
        # The process that was asked for ends at once, so nobody has to wait for the one that serves.
        if os.fork():
            os._exit(0)
        os.setsid()
    from penstock.engine.errors import PenstockError
    from penstock.gemini_local.server import Running, ServerSettings, serve
    from penstock.gemini_local.settings import read_settings
    from penstock.gemini_local.state import FolderTaken

    def tell(running: Running) -> None:
        if arguments.ready_fd is not None:
            said = json.dumps({name: getattr(running, name) for name in Running.__dataclass_fields__})
            with suppress(OSError):
                os.write(arguments.ready_fd, said.encode())
                os.close(arguments.ready_fd)

    try:
        gemini = read_settings({**json.loads(arguments.settings), "key": os.environ.get("PENSTOCK_GEMINI_KEY") or None})
        settings = ServerSettings(
            home=arguments.home,
            host=arguments.host,
            port=arguments.port,
            port_is_a_wish=arguments.port_is_a_wish,
            backend=arguments.backend,
            allow_remote=arguments.allow_remote,
            idle_stop=arguments.idle_stop,
            seed=arguments.seed,
            gemini=gemini,
        )
        serve(settings, on_ready=tell)
    except (PenstockError, FolderTaken) as error:
        sys.exit(f"penstock: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m penstock.gemini_local", description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-is-a-wish", action="store_true")
    parser.add_argument("--backend", default="local")
    parser.add_argument("--allow-remote", action="store_true")
    parser.add_argument("--idle-stop", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--settings", default="{}", help="JSON, flat: any field of Settings, Pace and Quotas")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--ready-fd", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
