"""Read by every Python process of a chaos run at its start (the folder is first on PYTHONPATH): clock, planted bug."""

import os

if os.environ.get("CHAOS_CLOCKS"):
    from chaos import clocks

    clocks.install(os.environ["CHAOS_CLOCKS"])
if os.environ.get("CHAOS_PLANT"):
    from chaos import planted

    planted.install(os.environ["CHAOS_PLANT"])
