"""Starts the binary under the name of the package, for `uvx subscope-cli` and `pipx run subscope-cli`."""

import os
import sys
import sysconfig


def main() -> None:
    """Become the binary, which was installed beside the Python that runs this."""
    folders = [os.path.dirname(sys.argv[0]), sysconfig.get_path("scripts")]
    for folder in folders:
        binary = os.path.join(folder, "subscope")
        if os.path.isfile(binary):
            os.execv(binary, [binary, *sys.argv[1:]])
    sys.exit(f"subscope-cli: there is no subscope in {' or '.join(folders)}; install the package again")
