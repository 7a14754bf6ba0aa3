# %% [markdown]
# # Lab 3: Write a congestion control law
#
# **Remember:** a law is judged where it was not tuned.
#
# - **Goals.** Write a law of a few lines that fills links, keeps queues short and shares fairly. See what is
#   lost on links that it was not made for. Take part in the contest of your class.
# - **You need** labs 1 and 2.
# - **Time.** 90 minutes. All programs run in half a minute on two cores, once the simulator is compiled (a
#   minute, the first time).
# - **You hand in** this file or notebook; `sysgym lab grade 3 .` checks it.
#
# A law is three functions of the state of one flow. They are compiled, and run inside the simulator at every
# ACK. So that nobody has to trust anybody in the contest, graders accept a small language only: arithmetic,
# `if`, `while`, `for ... in range(...)`, `math`, your own functions, numbers in CAPITALS, and the four
# functions imported below. A law can set `flow.cwnd`, `flow.ssthresh`, `flow.pacing_rate_bps` and
# `flow.state[0]` to `flow.state[39]`, which are 0 at first.
#
# | what a law can read | meaning |
# | --- | --- |
# | `flow.cwnd`, `flow.ssthresh` | congestion window and end of slow start, packets |
# | `flow.srtt_ns`, `flow.min_rtt_ns` | smoothed and least round trip seen |
# | `flow.una`, `flow.nxt` | first packet not acknowledged, next to send |
# | `flow.in_recovery` | 1 while losses are repaired |
# | `event.marked` | 1 if this ACK echoes a mark: the queue was above the switch's threshold |
# | `event.acked_packets`, `event.rtt_ns` | packets that this ACK acknowledges, and their round trip |
# | `event.window_limited` | 1 if the window limits the sender |
#
# A flow also has `flow.high` (first packet never sent), `flow.rttvar_ns` (variation of the round trip) and
# `flow.pacing_rate_bps`. An event also has `event.now_ns`, the time. Names of your own begin with a letter,
# and have to have a value on every path on which they are read.

# %%
import matplotlib.pyplot as plt

from sysgym.emulator.packets.transports import (
    Transport,
    multiplicative_decrease,
    reno_increase,
    restart_from_one,
)
from sysgym.labs.links import Link, play, watch

# %% [markdown]
# ## The law (90 points)
#
# 40 points are for the first link below, and 50 for six links that you do not see. None are given for the
# score of Reno, all for that of our solution less a margin, and the rest in proportion; the check prints both
# scores.
#
# This law is Reno: it ignores marks, and learns of congestion from lost packets. Make it react to marks, not
# to each one, but at most once per window: remember `flow.nxt` at a reduction, and wait until `flow.una` has
# passed it.
#
# **Predict** before you run anything: how many round trips does a packet wait under Reno on the first link
# below (100 Mb/s, 10 ms, a buffer of 500 kB), and under a law that keeps the queue near the marks (30 kB)?

# %%
### BEGIN SOLUTION
### TODO: you may add numbers in CAPITALS, one on a line, and functions of your own
ALPHA = 0  # slots of flow.state
ACKED = 1
MARKED = 2
WINDOW_END = 3
REDUCED_UP_TO = 4
GAIN = 1 / 16
### END SOLUTION


def on_ack(flow, event):
    """Change flow.cwnd at an ACK."""
    ### BEGIN SOLUTION
    ### TODO: react to event.marked
    ### >>> reno_increase(flow, event)
    flow.state[ACKED] += event.acked_packets
    if event.marked:
        flow.state[MARKED] += event.acked_packets
    if flow.una > flow.state[WINDOW_END]:
        marked_fraction = flow.state[MARKED] / max(flow.state[ACKED], 1.0)
        flow.state[ALPHA] += GAIN * (marked_fraction - flow.state[ALPHA])
        flow.state[ACKED] = 0.0
        flow.state[MARKED] = 0.0
        flow.state[WINDOW_END] = flow.nxt
    if not event.marked:
        reno_increase(flow, event)
    elif flow.una > flow.state[REDUCED_UP_TO] and not flow.in_recovery:
        alpha = flow.state[ALPHA]
        if flow.ssthresh > 1e9:  # the first mark of all ends slow start: halve
            alpha = 1.0
        flow.cwnd = max(flow.cwnd * (1.0 - alpha / 2.0), 2.0)
        flow.ssthresh = flow.cwnd
        flow.state[REDUCED_UP_TO] = flow.nxt
    ### END SOLUTION


def on_loss(flow, event):
    """Change flow.cwnd and flow.ssthresh when packets were lost."""
    multiplicative_decrease(flow, event, 0.5)


def on_timeout(flow, event):
    """Begin again after a timeout."""
    restart_from_one(flow, event, 0.5)


# %% [markdown]
# ## Try it
#
# The score of a link: 50 points for using it (none up to 90 %, all from 98 % on), 30 for a short queue (none
# from a mean delay of one round trip on), 20 for equal shares (Jain's index).


# %%
def score(result, link):
    """Return 0 to 100 points for a law on a link."""
    full = min(max((result.used - 0.9) / 0.08, 0), 1)
    short = max(1 - result.delay_s / link.rtt_s, 0)
    return 50 * full + 30 * short + 20 * result.fairness


TUNED = Link(rate_bps=100e6, rtt_s=0.01, buffer_bytes=500e3, mark_bytes=30e3, flows=2)
OTHERS = [
    Link(rate_bps=10e6, rtt_s=0.03, buffer_bytes=150e3, mark_bytes=12e3, flows=4),
    Link(rate_bps=10e9, rtt_s=1e-4, buffer_bytes=500e3, mark_bytes=30e3, flows=8),
]
mine = Transport("mine", "law of lab 3", on_ack, on_loss, on_timeout, ecn_capable=True)
for link in (TUNED, *OTHERS):
    print(f"{link.rate_bps / 1e6:g} Mb/s, {1e3 * link.rtt_s:g} ms, {link.flows} flows")
    for law in (mine, "reno", "cubic", "dctcp"):
        result = play(link, law)
        name = law if isinstance(law, str) else "yours"
        print(
            f"  {name:6} {score(result, link):5.1f} points: {100 * result.used:5.1f} % used,"
            f" delay {result.delay_s / link.rtt_s:5.2f} round trips, fairness {result.fairness:.3f}"
        )

# %% [markdown]
# **Required plot:** windows and queue of your law over time, beside Reno's.

# %%
figure, axes = plt.subplots(2, 2, figsize=(10, 4.5), sharex=True, sharey="row", layout="constrained")
for column, law in enumerate((mine, "reno")):
    seen = watch(TUNED, law, duration_s=3.0)
    axes[0, column].plot(seen.time_s, seen.cwnd_packets)
    axes[1, column].plot(seen.time_s, seen.queue_bytes / 1e3)
    axes[0, column].set_title("yours" if column == 0 else "reno")
    axes[1, column].set_xlabel("time (s)")
axes[0, 0].set_ylabel("window (packets)")
axes[1, 0].set_ylabel("queue (kB)")
plt.show()

# %% [markdown]
# ## The contest (10 points for a law that finishes it)
#
# Your instructor plays all laws on six links that nobody has seen: 10 Mb/s to 10 Gb/s, 2 to 8 flows, marks
# at a tenth to a half of the bandwidth-delay product. The mean score is your place. Whoever tunes for
# `TUNED` alone will see what that costs.
#
# ## Questions
#
# 1. Why not halve at every mark? Try it and look at the windows. And once per window, but always by half?
# 2. Which number of your law depends on the link that you tuned it on? How could it be avoided?
# 3. Your law shares a link with CUBIC, which ignores marks. Who gets more, and why? Flow 0 is yours here,
#    flow 1 is CUBIC's:
#
#    ```
#    from sysgym.emulator.packets.network import PacketNetwork
#    network = PacketNetwork(TUNED.scenario(), transport=mine, flow_transports={1: "cubic"})
#    network.advance(5.0)
#    print(network.flows().delivered_bytes)
#    ```
# 4. What would a law look like that is best in this score and useless in a network?
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
