# SPDX-License-Identifier: Apache-2.0
"""A Slurm on this machine while a test runs: munged, slurmctld, two slurmd, one folder."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "sinfo")
PACKAGES = "munge slurmctld slurmd slurm-client"
# Where Debian keeps those of the system.
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
START_LIMIT_S = 60


def missing():
    """What keeps a cluster from being started here, and what to do; empty where nothing does."""
    gone = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if gone:
        return (
            f"{', '.join(gone)} missing; on Debian: "
            f"apt-get install --no-install-recommends {PACKAGES}"
        )
    if os.geteuid() != 0:
        return "slurmd starts jobs of users, which needs root: run this test as root"
    return ""


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Two nodes, n1 and n2, of two CPUs each. Ends with the block that it is the context of."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="autotuned-slurm-"))
        self.config = self.folder / "slurm.conf"
        self.processes = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def environment(self):
        """For commands that ask this cluster."""
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.config)}

    def command(self, *words):
        """What a command of Slurm prints."""
        done = subprocess.run(
            words, env=self.environment(), capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    def logs(self):
        """The last lines of each server, for a message."""
        text = ""
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-15:]
            text += f"--- {log.name}\n" + "\n".join(lines) + "\n"
        return text

    def _start(self):
        # munged insists on folders that nobody else can write.
        self.folder.chmod(0o755)
        user = pwd.getpwuid(os.geteuid()).pw_name
        host = socket.gethostname().split(".")[0]
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        munge_socket = munge / "socket"
        controller, first, second = free_ports(3)
        nodes = "".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
            " State=UNKNOWN\n"
            for name, port in (("n1", first), ("n2", second))
        )
        self.config.write_text(
            f"ClusterName=autotuned-test\n"
            f"SlurmctldHost={host}(127.0.0.1)\n"
            f"SlurmctldPort={controller}\n"
            f"SlurmUser={user}\n"
            f"SlurmdUser={user}\n"
            f"AuthType=auth/munge\n"
            f"AuthInfo=socket={munge_socket}\n"
            f"CredType=cred/munge\n"
            f"StateSaveLocation={self.folder}/state\n"
            f"SlurmdSpoolDir={self.folder}/spool-%n\n"
            f"SlurmctldPidFile={self.folder}/slurmctld.pid\n"
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid\n"
            f"SlurmctldLogFile={self.folder}/slurmctld.log\n"
            f"SlurmdLogFile={self.folder}/slurmd-%n.log\n"
            f"ProctrackType=proctrack/linuxproc\n"
            f"TaskPlugin=task/none\n"
            f"SelectType=select/cons_tres\n"
            f"SelectTypeParameters=CR_CPU\n"
            f"MpiDefault=none\n"
            f"SwitchType=switch/none\n"
            f"ReturnToService=2\n"
            f"JobCompType=jobcomp/none\n"
            f"JobAcctGatherType=jobacct_gather/none\n"
            f"KillWait=20\n"
            f"{nodes}"
            f"PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n"
        )
        (self.folder / "state").mkdir()
        self._serve(
            "munged",
            "--foreground",
            f"--key-file={key}",
            f"--socket={munge_socket}",
            f"--pid-file={munge}/pid",
            f"--log-file={self.folder}/munged.log",
            f"--seed-file={munge}/seed",
        )
        self._wait(munge_socket.exists, "munged has made no socket")
        self._serve("slurmctld", "-D", "-f", str(self.config))
        for name in ("n1", "n2"):
            self._serve("slurmd", "-D", "-N", name, "-f", str(self.config))
        self._wait(self._is_idle, "the two nodes are not idle")

    def _is_idle(self):
        return self.command("sinfo", "--noheader", "--format=%t %D").split() == ["idle", "2"]

    def _serve(self, program, *arguments):
        out = open(self.folder / f"{program}.out.log", "ab")
        self.processes.append(
            subprocess.Popen(
                [shutil.which(program, path=PATH), *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        )
        out.close()

    def _wait(self, is_done, otherwise):
        end = time.monotonic() + START_LIMIT_S
        while not is_done():
            for process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(
                        f"{process.args[0]} ended with {process.returncode}\n{self.logs()}"
                    )
            if time.monotonic() > end:
                raise RuntimeError(f"{otherwise}\n{self.logs()}")
            time.sleep(0.1)

    def _stop(self):
        if self.config.exists():
            self.command("scancel", "--full", "--user=root", "--signal=KILL")
        # Nodes first: their jobs end with them.
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
