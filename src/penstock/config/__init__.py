"""What Penstock is told from outside: `Settings`, and `load`, which finds them.

Sources, weakest first: defaults, `penstock.yaml`, `.env`, the environment, flags. A wrong value names its field and
its source.
"""

from penstock.config.loading import load
from penstock.config.settings import Settings

__all__ = ["Settings", "load"]
