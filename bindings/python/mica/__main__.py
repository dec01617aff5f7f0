"""python -m mica: the command that came with the package."""
import os
import shutil
import sys
import sysconfig


def main() -> None:
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    program = next((path for path in (os.path.join(place, "mica") for place in places)
                    if os.access(path, os.X_OK)), shutil.which("mica"))
    if program is None:
        sys.exit("there is no command mica")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
