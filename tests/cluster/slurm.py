"""A Slurm of this machine alone."""
import contextlib
import glob
import os
import shutil
import socket
import subprocess
import time

from cluster import environment, free_port, skip

CONF = """\
ClusterName=mica
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={slurmd_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_interval=2
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def slurm_node(folder):
    """The environment of a running Slurm"""
    os.environ["PATH"] += ":/usr/sbin"
    for name in ("slurmctld", "slurmd", "munged", "sbatch"):
        if not shutil.which(name):
            skip(f"there is no {name}: tools/install-deps.sh cluster")
    if os.geteuid() != 0:
        skip("Slurm's daemons need root")
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        os.mkdir(f"{folder}/{name}")
    with open(folder + "/slurm.conf", "w", encoding="ascii") as file:
        file.write(CONF.format(folder=folder, host=host, port=free_port(),
                               slurmd_port=free_port()))
    with open(folder + "/munge.key", "wb") as file:
        file.write(os.urandom(1024))
    os.chmod(folder + "/munge.key", 0o400)
    os.chmod(folder, 0o755)
    env = environment(SLURM_CONF=folder + "/slurm.conf")
    started = []
    try:
        for command in ([shutil.which("munged"), "--foreground", "--force",
                         f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
                         f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
                         f"--seed-file={folder}/munge.seed"],
                        [shutil.which("slurmctld"), "-D"], [shutil.which("slurmd"), "-D"]):
            started.append(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL))
            time.sleep(1)
        for _ in range(60):
            seen = subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True,
                                  text=True).stdout
            if "idle" in seen:
                break
            time.sleep(1)
        else:
            print(text_of(folder + "/slurm*.log")[-3000:])
            raise RuntimeError("Slurm's node does not become idle")
        yield env
    finally:
        for one in reversed(started):
            one.terminate()
            one.wait(60)


def text_of(pattern):
    texts = []
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "".join(texts)
