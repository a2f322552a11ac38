"""A link between two network namespaces, with a rate and a delay. It ends with the program."""

import pathlib
import subprocess
import sys

import namespaces
from namespaces import WAIT_S, Namespaces, WireError, run

__all__ = ["Wire", "WireError"]

RELAY = pathlib.Path(__file__).resolve().parent / "relay.py"
HOSTS = ("10.77.0.1", "10.77.0.2")
# The burst after a pause: a few packets as senders pass them on, and the bytes that a late timer has to catch up.
BURST_BYTES, BURST_S = 128 << 10, 0.004
LATENCY_MS = 50


class Wire(Namespaces):
    """The link. `enter` of a side is the command that runs another command there; `delayed_by` names what delays
    packets.
    """

    def __init__(self, rate_mbit: int, delay_ms: float) -> None:
        super().__init__((*namespaces.TOOLS, "tc"))
        self.rate_mbit, self.delay_ms = rate_mbit, delay_ms
        self.delayed_by = "nothing"
        try:
            self.enter = [self.namespace(), self.namespace()]
            self.lay()
        except BaseException:
            self.close()
            raise

    @property
    def bytes_per_s(self) -> float:
        return self.rate_mbit * 1e6 / 8

    def lay(self) -> None:
        """Sets up cables, addresses, rate and delay."""
        is_direct = self.delay_ms == 0 or self.has_netem()
        if is_direct:
            self.cable(self.enter[0], "link0", self.processes[1].pid, "link0")
        else:
            middle = self.namespace()
            self.cable(middle, "left", self.processes[0].pid, "link0")
            self.cable(middle, "right", self.processes[1].pid, "link0")
            for name in ("left", "right"):
                run([*middle, "ip", "link", "set", name, "up"])
        for enter, host in zip(self.enter, HOSTS, strict=True):
            run([*enter, "ip", "address", "add", f"{host}/24", "dev", "link0"])
            for name in ("lo", "link0"):
                run([*enter, "ip", "link", "set", name, "up"])
            self.shape(enter, with_delay=is_direct and self.delay_ms > 0)
        if not is_direct:
            self.start([*middle, sys.executable, str(RELAY), "left", "right", str(self.delay_ms)])
            self.delayed_by = "a relay in user space, since this kernel has no netem"

    def has_netem(self) -> bool:
        tried = [*self.enter[0], "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        if subprocess.run(tried, capture_output=True, timeout=WAIT_S).returncode != 0:
            return False
        run([*self.enter[0], "tc", "qdisc", "del", "dev", "lo", "root"])
        return True

    def shape(self, enter: tuple[str, ...], with_delay: bool) -> None:
        """Sets the rate of packets that leave a side, and with `with_delay` their delay, by netem."""
        qdisc = [*enter, "tc", "qdisc", "add", "dev", "link0"]
        burst = max(BURST_BYTES, round(self.bytes_per_s * BURST_S))
        rate = ["tbf", "rate", f"{self.rate_mbit}mbit", "burst", str(burst), "latency", f"{LATENCY_MS}ms"]
        try:
            run([*qdisc, "root", "handle", "1:", *rate])
        except WireError as error:
            raise WireError(f"{error}\nThis kernel has no tbf (CONFIG_NET_SCH_TBF), which sets the rate.") from None
        if with_delay:
            run([*qdisc, "parent", "1:1", "handle", "2:", "netem", "delay", f"{self.delay_ms}ms", "limit", "100000"])
            self.delayed_by = "netem"
