# %% [markdown]
# # Lab 4: Incast and tails
#
# **Remember:** the slowest of many answers decides, so a delay that is rare per server is common per request.
#
# - **Goals.** Compute what a rare delay does to a request with many answers. Predict when the buffer of a
#   switch overflows. Measure tails without forgetting those who never finished. Fix incast with one number.
# - **You need** Python and NumPy; labs 1 and 2 help.
# - **Time.** 75 minutes. All programs run in half a minute on two cores, once the simulator is compiled (a
#   minute, the first time).
# - **You hand in** this file or notebook; `sysgym lab grade 4 .` checks it. Graders read only functions,
#   imports and names in CAPITALS. In grading, functions may use Python and NumPy, not sysgym.
#
# ```
#   n servers ==== switch ==[ buffer of B packets ]== 10 Gb/s == one client, who asked them all at once
# ```

# %%
import matplotlib.pyplot as plt
import numpy as np

from sysgym.labs.incast import Incast, play_rounds

# %% [markdown]
# ## 1. Rare is common (20 points)
#
# Each server is slow once in a hundred times, independently of the others. A page asks `n` servers and is
# complete when the last has answered (Dean and Barroso, The Tail at Scale, 2013). **Write down first** what
# you expect for n = 100.


# %%
def chance_of_a_slow_page(servers, chance):
    """Return the chance that at least one of the servers is slow."""
    ### BEGIN SOLUTION
    ### TODO: when is no server slow?
    ### >>> return 0.0
    return 1 - (1 - chance) ** servers
    ### END SOLUTION


# %%
for servers in (1, 10, 100, 1000):
    print(f"{servers:4} servers: {100 * chance_of_a_slow_page(servers, 0.01):.0f} % of the pages are slow")

# %% [markdown]
# ## 2. Predict the queue (20 points)
#
# All servers answer at once. Each sends its first window of `w` packets at the rate of its own link, which
# is as fast as the client's. While n packets arrive, one leaves. How many packets wait when the first
# windows have arrived? The answer is not n × w.


# %%
def queue_after_first_windows(servers, window_packets):
    """Return the queue in packets, in a buffer that is large enough."""
    ### BEGIN SOLUTION
    ### TODO: what arrives, less what leaves meanwhile
    ### >>> return 0.0
    return (servers - 1) * window_packets
    ### END SOLUTION


# %%
for servers, window in ((8, 10), (16, 10), (32, 2), (32, 10)):
    large = Incast(servers, buffer_packets=1000, window_packets=window, answer_packets=window)
    measured = play_rounds(large, "dctcp").queue_max_packets
    said = queue_after_first_windows(servers, window)
    print(f"{servers} servers, window {window}: {measured:.1f} packets, you said {said}")

# %% [markdown]
# ## 3. Measure tails honestly (25 points)
#
# An answer that has not arrived when the measurement ends has no finish time (`nan`). Leaving it out can make
# the worst law look best. Return for each request the time of its slowest answer, and infinity (`np.inf`) if
# an answer is missing.


# %%
def request_times_s(start_s, finish_s, request):
    """Return the time of each request, ordered by its number.

    Args:
        start_s: When the answers began, an array.
        finish_s: When their last byte arrived; nan if it did not.
        request: Number of the request that each answer belongs to.
    """
    ### BEGIN SOLUTION
    ### TODO: from the first start to the last finish of each request
    ### >>> return [0.0 for _ in np.unique(request)]
    times = []
    for number in np.unique(request):
        mine = request == number
        finished = np.where(np.isnan(finish_s[mine]), np.inf, finish_s[mine])
        times.append(finished.max() - start_s[mine].min())
    return times
    ### END SOLUTION


# %% [markdown]
# **Required plot:** the distribution of request times under three laws, with 32 servers and a buffer of 100
# packets. The client of the second line has no patience: it leaves after 5 ms and never sees later answers.
# Which law looks best if its unfinished requests are left out?

# %%
PATIENCE_S = 5e-3
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for law in ("reno", "cubic", "dctcp"):
    seen = play_rounds(Incast(32, buffer_packets=100, window_packets=10, answer_packets=20), law, rounds=40)
    times_s = np.sort(request_times_s(seen.start_s, seen.finish_s, seen.request))
    axis.step(1e3 * times_s, np.arange(1, len(times_s) + 1) / len(times_s), where="post", label=law)
    print(f"{law}: median {1e3 * np.median(times_s):.2f} ms, worst {1e3 * times_s.max():.2f} ms")
    in_time_s = np.where(seen.finish_s - seen.start_s <= PATIENCE_S, seen.finish_s, np.nan)
    times_s = np.array(request_times_s(seen.start_s, in_time_s, seen.request))
    finished_s = times_s[np.isfinite(times_s)]
    print(
        f"  after 5 ms {len(times_s) - len(finished_s)} of {len(times_s)} are unfinished; median"
        f" {1e3 * np.median(times_s):.2f} ms, without the unfinished {1e3 * np.median(finished_s):.2f} ms"
    )
axis.set(xlabel="request time (ms)", ylabel="share of requests", xscale="log")
axis.legend()
plt.show()

# %% [markdown]
# ## 4. Fix it (35 points)
#
# Choose the first window of DCTCP's senders: the **largest** that fits the buffer, since small windows cost
# round trips where the round trip is long. The ideal time of a request is that of a link which is never idle;
# the slowdown is the time over the ideal one. Your function is played on three hidden incasts of 16 to 48
# servers. Half of the points are for a mean slowdown of at most 1.2; the other half, with such a slowdown,
# are for windows so large that those of two packets more would not fit.


# %%
def first_window_packets(servers, buffer_packets):
    """Return the first window of each server, a whole number of packets, at least 1."""
    ### BEGIN SOLUTION
    ### TODO: use your prediction of the queue; no constant is right everywhere
    ### >>> return 10
    return max(int(buffer_packets // (servers - 1)), 1)
    ### END SOLUTION


# %%
for servers, buffer_packets in ((16, 40), (32, 100), (48, 150)):
    windows = [1, 2, 3, 4, 6, 10, first_window_packets(servers, buffer_packets)]
    slowdowns = [
        play_rounds(Incast(servers, buffer_packets, window, answer_packets=20), "dctcp").slowdown
        for window in windows
    ]
    shown = ", ".join(f"{window}: {slow:.2f}" for window, slow in zip(windows, slowdowns, strict=True))
    print(f"{servers} servers, buffer {buffer_packets}: window: slowdown {shown} (yours is the last)")

# %% [markdown]
# ## Questions
#
# 1. Between a window of 3 and one of 4 the slowdown jumps (32 servers, 100 packets). With 16 servers and 40
#    packets it does so too, although packets are lost with a window of 3 already. What is lost at the jump?
# 2. Which law's slowest requests wait for a probe (the sender repeats its last packet after about 4 ms), and
#    which for a timeout (10 ms)? Divide both by the ideal time (0.77 ms) before you answer.
# 3. The p99 of a time is what 99 of 100 stay below. In an incast of 64 servers with a buffer of 500 kB, this
#    project measured a p99 slowdown of 37 under CUBIC and of 341 under DCTCP, although CUBIC drops 26 % of
#    the packets and DCTCP 20 %. Does this contradict lab 2?
# 4. Who else could fix incast: the application, the switch, the receiver? Name one way each.
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
