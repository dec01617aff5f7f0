"""Two machines of this one: namespaces with a link between them that has a rate, by tc, and a
delay, by a process between two TAP devices (not all kernels have netem). It can be cut. Ranks are
started over it, one in each: by Open MPI without ssh, or over TCP, by nobody.
"""
import collections
import contextlib
import fcntl
import os
import select
import shutil
import struct
import subprocess
import tempfile
import threading
import time

from cluster import MARK, MICA, skip

# Open MPI's daemons find out by themselves, too, that the other machine cannot be reached.
KEEPALIVE = {"oob_tcp_keepalive_time": "5", "oob_tcp_keepalive_intvl": "2",
             "oob_tcp_keepalive_probes": "3"}
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def check_possible():
    """Ends the test as skipped where namespaces or TAP devices cannot be had."""
    for name in ("ip", "tc"):
        if not shutil.which(name):
            skip(f"there is no {name}")
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        skip("namespaces and TAP devices need root")
    name = f"mica-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode:
        skip("namespaces cannot be made here")
    ip("netns", "del", name)


class Relay:
    """Carries frames from one TAP device to another, each after a delay"""

    def __init__(self, source, target, delay):
        self.source, self.target, self.delay, self.cut = source, target, delay, False
        self.frames, self.some = collections.deque(), threading.Semaphore(0)
        self.closed = False
        self.threads = [threading.Thread(target=run) for run in (self.read, self.write)]
        for thread in self.threads:
            thread.start()

    def read(self):
        while not self.closed:
            if select.select([self.source], [], [], 0.1)[0]:
                self.frames.append((time.monotonic() + self.delay, os.read(self.source, 65536)))
                self.some.release()

    def write(self):
        while not self.closed:
            if not self.some.acquire(timeout=0.1):
                continue
            due, frame = self.frames.popleft()
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            if not self.cut:
                with contextlib.suppress(OSError):  # a frame before the other end is up
                    os.write(self.target, frame)

    def close(self):
        """Before the devices are closed: others may get their numbers."""
        self.closed = True
        for thread in self.threads:
            thread.join()


class Link:
    """Two namespaces, and Open MPI's ranks in them"""

    def __init__(self, delay=0.0, rate=None):
        self.names = [f"mica-{os.getpid()}-{i}" for i in range(2)]
        self.folder = tempfile.mkdtemp()
        self.taps = []
        for i, name in enumerate(self.names):
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
            device = f"mica{os.getpid() % 100000}{'ab'[i]}"
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(),
                                                    IFF_TAP | IFF_NO_PI))
            self.taps.append((tap, device))
            ip("netns", "add", name)
            ip("link", "set", device, "netns", name)
            self.inside(i, "ip", "link", "set", "lo", "up")
            self.inside(i, "ip", "addr", "add", f"10.99.58.{i + 1}/24", "dev", device)
            self.inside(i, "ip", "link", "set", device, "up")
        (one, _), (two, _) = self.taps
        self.relays = [Relay(one, two, delay), Relay(two, one, delay)]
        self.limit(rate)
        self.agent = self.folder + "/agent"
        with open(self.agent, "w", encoding="ascii") as file:  # HOST COMMAND...
            file.write('#!/bin/sh\ncase $1 in\n' + "".join(
                f"  10.99.58.{i + 1}) name={name} ;;\n" for i, name in enumerate(self.names)) +
                       'esac\nshift\nexec ip netns exec $name sh -c "$*"\n')
        os.chmod(self.agent, 0o755)
        with open(self.folder + "/hosts", "w", encoding="ascii") as file:
            file.write("10.99.58.1 slots=1\n10.99.58.2 slots=1\n")

    def inside(self, i, *words):
        subprocess.run(["ip", "netns", "exec", self.names[i], *words], check=True)

    def limit(self, rate):
        """rate: in bits per second, as tc writes it; None: none"""
        for i, (_, device) in enumerate(self.taps):
            subprocess.run(["ip", "netns", "exec", self.names[i], "tc", "qdisc", "del", "dev",
                            device, "root"], stderr=subprocess.DEVNULL, check=False)
            if rate:
                self.inside(i, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
                            "burst", "16kb", "latency", "2s")

    def delay(self, seconds):
        for relay in self.relays:
            relay.delay = seconds

    def cut(self, is_cut=True):
        for relay in self.relays:
            relay.cut = is_cut

    def ranks(self, *words, second=None, program=MICA, over="mpi", **options):
        """Two ranks of mica, one at each end. second: what the other one is called with
        over: mpi, whose mpirun is returned, or tcp: the processes of both"""
        if over == "tcp":
            return [self.rank(i, program, (second or words) if i else words, options)
                    for i in range(2)]
        one = ["-n", "1", program, *words]
        two = ["-n", "1", program, *(second or words)]
        settings = {"plm": "rsh", "plm_rsh_agent": self.agent, "btl": "tcp,self",
                    "oob_tcp_if_include": "10.99.58.0/24", "btl_tcp_if_include": "10.99.58.0/24",
                    **KEEPALIVE}
        command = ["ip", "netns", "exec", self.names[0], "mpirun", "--hostfile",
                   self.folder + "/hosts", "--map-by", "node", "-x", MARK]
        for name, value in settings.items():
            command += ["--mca", name, value]
        if os.environ.get("MICA_MPI_LIBRARY"):
            command += ["-x", "MICA_MPI_LIBRARY"]
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none", MARK: str(os.getpid())}
        return subprocess.Popen([*command, *one, ":", *two], env=env, stdin=subprocess.DEVNULL,
                                **options)

    def rank(self, i, program, words, options):
        env = {**os.environ, "RANK": str(i), "WORLD_SIZE": "2", "MASTER_ADDR": "10.99.58.1",
               "MASTER_PORT": "29500", MARK: str(os.getpid())}
        return subprocess.Popen(["ip", "netns", "exec", self.names[i], program, *words], env=env,
                                stdin=subprocess.DEVNULL, **options)

    def close(self):
        for relay in self.relays:
            relay.close()
        for tap, _ in self.taps:
            os.close(tap)
        for name in self.names:
            ip("netns", "del", name)
        shutil.rmtree(self.folder)
