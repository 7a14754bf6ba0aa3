# %% [markdown]
# # Lab 1: Bufferbloat
#
# **Remember:** a buffer beyond one bandwidth-delay product buys no throughput, only delay.
#
# - **Goals.** Compute what a full buffer costs. Measure it. Choose a buffer for links that you have not seen.
# - **You need** Python and NumPy. You should know that TCP has a congestion window.
# - **Time.** One hour. All programs run in half a minute on two cores, once the simulator is compiled (up to
#   three minutes, the first time).
# - **You hand in** this file or notebook. `sysgym lab grade 1 .` checks it; graders read only functions,
#   imports and names in CAPITALS, so experiments can stand anywhere. In grading, functions may use Python and
#   NumPy, not sysgym.
#
# ```
#   sender 1 --\                                        /-- receiver 1
#               switch ==[ buffer ]== 10 Mb/s, 30 ms == switch
#   sender 2 --/                                        \-- receiver 2
# ```

# %%
import matplotlib.pyplot as plt
import numpy as np

from sysgym.labs.links import Link, play, watch

# %% [markdown]
# ## 1. Predict (30 points)
#
# The bandwidth-delay product (BDP) is what is on the way when the link is just full: rate times round trip.
# Rates are in bits per second, buffers in bytes. A packet that meets a full buffer is dropped, so the longest
# wait is that of the last packet that still finds room.


# %%
def bdp_bytes(rate_bps, rtt_s):
    """Return the bandwidth-delay product in bytes."""
    ### BEGIN SOLUTION
    ### TODO: compute it; mind bits and bytes
    ### >>> return 0.0
    return rate_bps * rtt_s / 8
    ### END SOLUTION


def full_queue_delay_s(buffer_bytes, rate_bps):
    """Return how long the last packet that still finds room in the buffer waits."""
    ### BEGIN SOLUTION
    ### TODO: the link has to send everything in front of it first; its own length does not matter here
    ### >>> return 0.0
    return 8 * buffer_bytes / rate_bps
    ### END SOLUTION


# %% [markdown]
# **Write down before you run anything:** with a buffer of 10 BDP, how long is a round trip of this link when
# the buffer is full? And how much more of the link will be used than with a buffer of 1 BDP?

# %% [markdown]
# ## 2. Measure (25 points)
#
# `watch` plays a link and samples the queue. The first third is warm-up: leave it out. Return the mean of the
# queueing delay and its 95th percentile, in seconds. In the plots below each panel has its own scale.


# %%
def queueing_delays_s(queue_bytes, rate_bps):
    """Return [mean, 95th percentile] of the queueing delay.

    Args:
        queue_bytes: Samples of the queue at regular times, an array; the first third is warm-up.
        rate_bps: Rate of the link.
    """
    ### BEGIN SOLUTION
    ### TODO: leave out the first third; np.quantile helps
    ### >>> return [0.0, 0.0]
    delays_s = 8 * queue_bytes[len(queue_bytes) // 3 :] / rate_bps
    return [np.mean(delays_s), np.quantile(delays_s, 0.95)]
    ### END SOLUTION


# %%
LINK = Link(rate_bps=10e6, rtt_s=0.03, buffer_bytes=0, flows=2)


def compare_buffers(law):
    """Plot windows, queue and round trip of a law with three buffers."""
    _, axes = plt.subplots(3, 3, figsize=(11, 6), sharex=True, layout="constrained")
    for column, factor in enumerate((0.25, 1, 10)):
        seen = watch(LINK.with_buffer(factor * LINK.bdp_bytes), law)
        axes[0, column].plot(seen.time_s, seen.cwnd_packets)
        axes[1, column].plot(seen.time_s, seen.queue_bytes / 1e3)
        axes[2, column].plot(seen.time_s, 1e3 * seen.rtt_s)
        axes[0, column].set_title(f"{law}, buffer of {factor:g} BDP")
        axes[2, column].set_xlabel("time (s)")
        delays_s = queueing_delays_s(seen.queue_bytes, LINK.rate_bps)
        print(f"{law}, {factor:g} BDP: delay {1e3 * delays_s[0]:.1f} ms, p95 {1e3 * delays_s[1]:.1f} ms")
    for row, name in enumerate(("window (packets)", "queue (kB)", "round trip (ms)")):
        axes[row, 0].set_ylabel(name)
    plt.show()


compare_buffers("reno")

# %% [markdown]
# **Required plots:** the three buffers under `reno`, `cubic` and `bbr`, which is version 1 of BBR (2016). The
# first run of `bbr` compiles for a minute or two.

# %%
for other in ("cubic", "bbr"):
    compare_buffers(other)

# %% [markdown]
# ## 3. Choose a buffer (30 points)
#
# Reno halves its window when a packet is lost. The buffer has to keep the link busy meanwhile. With one flow,
# or with flows that lose packets at the same time, this takes one BDP. Flows that lose packets at different
# times need less: about one BDP divided by the square root of their number (Appenzeller et al., SIGCOMM
# 2004). Try it here, where few flows share a slow link. One function has to serve two hidden links, each for
# half of the points:
#
# - one flow uses at least 98 % of its link;
# - nine flows wait 0.25 round trips at most in the mean, and still use at least 95 % of theirs.


# %%
def choose_buffer_bytes(bdp, flows):
    """Return a buffer with which Reno's flows use the link, and the queue stays short.

    Args:
        bdp: Bandwidth-delay product of the link in bytes; the grader computes it.
        flows: Number of flows.
    """
    ### BEGIN SOLUTION
    ### TODO: one packet is too little; how much is enough, for one flow and for nine?
    ### >>> return 1500
    return bdp / np.sqrt(flows)
    ### END SOLUTION


# %%
factors = (0.1, 0.25, 0.5, 1, 2, 5, 10)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for flows in (1, 4, 9):
    shared = Link(10e6, 0.03, 0, flows=flows)
    results = [play(shared.with_buffer(factor * shared.bdp_bytes), "reno") for factor in factors]
    name = "1 flow" if flows == 1 else f"{flows} flows"
    left.semilogx(factors, [100 * one.used for one in results], "o-", label=name)
    right.semilogx(factors, [1e3 * one.delay_s for one in results], "o-")
    chosen = play(shared.with_buffer(choose_buffer_bytes(shared.bdp_bytes, flows)), "reno")
    print(f"{name}, your buffer: {100 * chosen.used:.1f} % used, delay {1e3 * chosen.delay_s:.1f} ms")
left.set(xlabel="buffer (BDP)", ylabel="link used (%)")
right.set(xlabel="buffer (BDP)", ylabel="mean queueing delay (ms)")
left.legend()
plt.show()

# %% [markdown]
# ## 4. What another law changes (15 points)
#
# Look at your plots, and at `play(...).dropped`. Two flows share a link. Which of `reno`, `cubic`, `bbr` has
# the shortest queue in a buffer of 10 BDP? And which drops most in a buffer of a quarter BDP? `bbr` is
# version 1 of BBR; its later version 3 is `bbr3`.

# %%
### BEGIN SOLUTION
### TODO: "reno", "cubic" or "bbr"
### >>> SHORTEST_QUEUE = ""
### >>> MOST_DROPS = ""
SHORTEST_QUEUE = "bbr"
MOST_DROPS = "bbr"
### END SOLUTION

# %% [markdown]
# ## Questions
#
# 1. Did your prediction of the round trip hold? Where does the difference come from?
# 2. A video call shares this link with a download. Which buffer do you want, and which law should the
#    download use?
# 3. Why does a buffer of 10 BDP not help Reno, although packets are lost less often?
# 4. BBR (version 1) keeps the queue short in a large buffer and drops most in a small one. Explain both with
#    one property of it.
# 5. Play version 3, `bbr3`, in a buffer of a quarter BDP too. What has changed, and what did the authors have
#    to give up for it?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
