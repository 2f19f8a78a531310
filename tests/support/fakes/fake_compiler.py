"""A fake g++ that only logs its requests, so that builds of the emulator take less than a second."""

from __future__ import annotations

from pathlib import Path

# The fake appends the names of object files to the file $LOG. If $LOG.slow exists, all object files except two take ten
# minutes. The two quick compilations are those that succeed in creating the folder $LOG.first or $LOG.second.
COMPILER = r"""#!/bin/sh
case "$1" in
  --version) echo "g++ (fake) 99.0"; exit ;;
  -dumpmachine) echo "$(uname -m)-linux-gnu"; exit ;;
esac
for argument; do
  case "$last" in -o) output="$argument" ;; esac
  case "$argument" in -c) compiles=yes ;; esac
  last="$argument"
done
case "$output" in
  *.gch) exit 1 ;;
  */probe) printf 'x' > "$output"; exit ;;
esac
if [ "$compiles" ]; then
  cat > "$output"
  echo "$(basename "$output")" >> "$LOG"
  if [ -e "$LOG.slow" ] && ! mkdir "$LOG.first" 2>/dev/null && ! mkdir "$LOG.second" 2>/dev/null; then sleep 600; fi
else
  printf '#!/bin/sh\necho usage: runner >&2\nexit 2\n' > "$output"
  chmod +x "$output"
fi
"""


def install_fake_compiler(folder: Path) -> Path:
    """Write the fake compiler to a new folder, which the caller puts on the PATH."""
    folder.mkdir()
    compiler = folder / "g++"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return compiler
