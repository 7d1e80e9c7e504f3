"""Stop with one sentence where Python is too old; runs on any Python 3."""

import sys

if sys.version_info < (3, 11):
    sys.exit(
        "Chamber needs Python 3.11 or newer; this is %s. "
        "Name a newer one with PYTHON=, e.g. make demo PYTHON=python3.12" % sys.version.split()[0]
    )
