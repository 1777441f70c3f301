"""Install jitlite as a user does, outside the checkout, and do there what README.md says, from top to bottom.

    python tests/tools/check_wheel.py [DISTRIBUTIONS]

The source distribution is built from the checkout, and the wheel from what the source distribution holds. The wheel is
installed into a new environment, which shares the other packages (torch is big) with the environment that this runs in.
DISTRIBUTIONS is where both files go; left out, they are not kept.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
OLD_CODE = "import torch\n\n\n@torch.jit.script\ndef f(x):\n    return x\n"
WHERE = "import jitlite, sys; sys.exit(0 if jitlite.__file__.startswith(sys.prefix) else jitlite.__file__)"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="jitlite-wheel-") as folder:
        place = Path(folder)
        made = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else place / "made"
        made.mkdir(parents=True, exist_ok=True)
        wheel = built(place, made)
        bin_folder = installed(place / "env", wheel)
        user = place / "user"
        user.mkdir()
        follow_readme(user, bin_folder)


def run(*command: object, cwd: Path) -> str:
    """Run a command with nothing of this process's environment for Python; its output, or the end of this program."""
    words = [str(word) for word in command]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=cwd, env=env, text=True, capture_output=True, timeout=600)
    if done.returncode:
        sys.exit(f"{shlex.join(words)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def built(place: Path, made: Path) -> Path:
    """Build the source distribution, then the wheel from it."""
    shutil.copytree(ROOT, place / "checkout", ignore=IGNORED, symlinks=True)
    name = run(sys.executable, "-c", BUILD, "sdist", made, cwd=place / "checkout").splitlines()[-1]
    with tarfile.open(made / name) as archive:
        archive.extractall(place / "source", filter="data")
    (source,) = (place / "source").iterdir()
    wheel = run(sys.executable, "-c", BUILD, "wheel", made, cwd=source).splitlines()[-1]
    print(f"built {name} and {wheel}")
    package = {path for path in checked_in() if path.startswith("jitlite/")}
    require(checked_in(), {path.relative_to(source).as_posix() for path in source.rglob("*")}, name)
    require(package, set(zipfile.ZipFile(made / wheel).namelist()), wheel)
    return made / wheel


def checked_in() -> set[str]:
    """The files of the checkout that a release has: all but git's own and the links at the root."""
    if not (ROOT / ".git").exists():
        return {path.relative_to(ROOT).as_posix() for path in (ROOT / "jitlite").rglob("*.py")}
    names = run("git", "ls-files", cwd=ROOT).splitlines()
    return {
        name for name in names if name != ".gitignore" and not (ROOT / name).is_symlink() and (ROOT / name).exists()
    }


def require(wanted: set[str], there: set[str], where: str) -> None:
    """End the program where something is not in a distribution."""
    if wanted - there:
        sys.exit(f"{where} lacks {sorted(wanted - there)}")


def installed(env: Path, wheel: Path) -> Path:
    """Install the wheel into a new environment that sees what is installed here, except jitlite."""
    venv.create(env, with_pip=True)
    scheme = {"base": str(env), "platbase": str(env)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme) if os.name == "posix" else "")
    shared = env / "shared"
    shared.mkdir()
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(folder).iterdir():
            if (
                not re.match(r"(?i)(__editable__.*)?_?jitlite|pip\b|.*\.pth$", entry.name)
                and not (shared / entry.name).exists()
            ):
                (shared / entry.name).symlink_to(entry)
    (site / "shared.pth").write_text(f"{shared}\n")
    python = env / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=env)
    run(python, "-c", WHERE, cwd=env)
    return env / "bin"


def follow_readme(folder: Path, bin_folder: Path) -> None:
    """Run README.md's Python in order, and each of its commands."""
    python, command = bin_folder / "python", bin_folder / "jitlite"
    print(run(command, "--version", cwd=folder).strip())
    print(run(command, "doctor", cwd=folder).partition("── versions")[0].strip())
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    sources = [text for kind, text in blocks if kind == "python"]
    (folder / "model.py").write_text(sources[0])
    run(python, "model.py", cwd=folder)
    saved = 'scripted.save("model.pt")\nimport numpy\nnumpy.save("x.npy", numpy.ones((2, 4), "float32"))\n'
    (folder / "tour.py").write_text("\n".join([*sources, saved]))
    run(python, "tour.py", cwd=folder)
    (folder / "src").mkdir()
    (folder / "src" / "old.py").write_text(OLD_CODE)
    lines = [line for kind, text in blocks if kind == "console" for line in text.splitlines()]
    commands = [shlex.split(line.partition("   ")[0])[1:] for line in lines if line.startswith("jitlite ")]
    if not commands:
        sys.exit("README.md shows no command")
    for words in commands:
        if words != ["doctor"]:
            run(command, *words, cwd=folder)
    print(f"ran README.md: {len(sources)} blocks of Python, {len(commands)} commands")


if __name__ == "__main__":
    main()
