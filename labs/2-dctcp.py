# %% [markdown]
# # Lab 2: DCTCP and its threshold K
#
# **Remember:** a switch that marks early and a sender that counts marks keep the link full with a queue of K.
#
# - **Goals.** Write DCTCP's two formulas. Predict the queue from K and the number of flows. Choose K for
#   unseen links, and find out where the textbook's bound ends.
# - **You need** lab 1, or to know what a bandwidth-delay product is.
# - **Time.** 75 minutes. All programs run in half a minute on two cores, once the simulator is compiled (a
#   minute, the first time).
# - **You hand in** this file or notebook; `sysgym lab grade 2 .` checks it. Graders read only functions,
#   imports and names in CAPITALS. In grading, functions may use Python and NumPy, not sysgym: write 1500 for
#   the bytes of a packet.
#
# ```
#   n senders ---- switch ==[ queue; marks above K ]== 10 Gb/s, 100 us == switch ---- n receivers
# ```

# %%
import matplotlib.pyplot as plt

from sysgym.labs.links import PACKET_BYTES, Link, play, watch

# %% [markdown]
# ## 1. The sender (20 points)
#
# Once per window, DCTCP updates its estimate of the share of marked packets, and reduces the window by half
# of it if there was a mark (RFC 8257, sections 3.3 and 4.2):
# `alpha <- (1 - g) alpha + g F` and `cwnd <- cwnd (1 - alpha / 2)`. The reduction uses the new alpha.


# %%
def after_one_window(cwnd, alpha, marked_fraction, gain):
    """Return [cwnd, alpha] after a window in which some packets were marked."""
    ### BEGIN SOLUTION
    ### TODO: update alpha, then the window; without marks the window grows by 1
    ### >>> return [cwnd, alpha]
    alpha = (1 - gain) * alpha + gain * marked_fraction
    if marked_fraction == 0:
        return [cwnd + 1, alpha]
    return [cwnd * (1 - alpha / 2), alpha]
    ### END SOLUTION


# %% [markdown]
# **Predict:** every packet is marked for a long time. By which factor does DCTCP reduce then? And if one
# packet in a hundred is? Compare with Reno.

# %% [markdown]
# ## 2. The bound (15 points)
#
# The DCTCP paper (Alizadeh et al., SIGCOMM 2010, section 3.4) models N flows in step, with windows that are
# large against one packet. The queue swings between K + N and K + N - sqrt(2 N (BDP + K)) / 2, in packets. It
# does not run empty for any N if K is more than a seventh of the bandwidth-delay product.


# %%
def least_k_bytes(rate_bps, rtt_s):
    """Return the paper's bound on K, in bytes."""
    ### BEGIN SOLUTION
    ### TODO: a seventh of the bandwidth-delay product
    ### >>> return 0.0
    return rate_bps * rtt_s / 8 / 7
    ### END SOLUTION


# %% [markdown]
# ## 3. Predict the largest queue (25 points)
#
# When the queue passes K, the mark needs one round trip to change anything. Until then every flow adds a
# packet. So what is the largest queue of n flows? Write it down, then measure.


# %%
def largest_queue_packets(k_packets, flows):
    """Return the largest queue after the start, in packets."""
    ### BEGIN SOLUTION
    ### TODO: K is where marks begin; how much comes on top?
    ### >>> return k_packets
    return k_packets + flows
    ### END SOLUTION


# %%
LINK = Link(rate_bps=10e9, rtt_s=100e-6, buffer_bytes=1e6, flows=2)

for flows in (1, 4, 16, 32):
    for k_packets in (20, 80):
        shared = Link(10e9, 100e-6, 1e6, k_packets * PACKET_BYTES, flows)
        result = play(shared, "dctcp")
        print(
            f"{flows:2} flows, K = {k_packets}: largest queue"
            f" {result.queue_max_bytes / PACKET_BYTES:5.1f} packets,"
            f" you said {largest_queue_packets(k_packets, flows)}; {100 * result.marked:.0f} % marked"
        )

# %% [markdown]
# **Required plot:** window and queue over time, for K of 5, 20 and 80 packets, and for Reno without marks.
# Each panel has its own scale; the dotted line is K.

# %%
figure, axes = plt.subplots(2, 4, figsize=(12, 4.5), sharex=True, layout="constrained")
for column, k_packets in enumerate((5, 20, 80, None)):
    shared = LINK.with_marks(None if k_packets is None else k_packets * PACKET_BYTES)
    seen = watch(shared, "reno" if k_packets is None else "dctcp", duration_s=0.02)
    axes[0, column].plot(1e3 * seen.time_s, seen.cwnd_packets)
    axes[1, column].plot(1e3 * seen.time_s, seen.queue_bytes / PACKET_BYTES)
    if k_packets is not None:
        axes[1, column].axhline(k_packets, color="gray", linestyle=":")
    axes[0, column].set_title("Reno" if k_packets is None else f"DCTCP, K = {k_packets}")
    axes[1, column].set_xlabel("time (ms)")
axes[0, 0].set_ylabel("window (packets)")
axes[1, 0].set_ylabel("queue (packets)")
plt.show()

# %% [markdown]
# ## 4. Choose K (40 points)
#
# Choose K for four links that you do not see, of 10 Gb/s and with 2, 4, 8 and 16 flows. The bandwidth-delay
# product is 83 to 250 packets with 2 and 4 flows, 83 to 92 packets with 8 flows, and 83 to 108 packets with
# 16 flows. You get half of the points if every link is used to 99.6 % or more, and half if the mean queue
# over the four is 0.185 bandwidth-delay products or less.


# %%
def choose_k_bytes(rate_bps, rtt_s, flows):
    """Return a threshold with which DCTCP fills the link and the queue is short."""
    ### BEGIN SOLUTION
    ### TODO: begin with the bound; then find where it no longer holds
    ### >>> return rate_bps * rtt_s / 8
    if flows <= 4:
        return least_k_bytes(rate_bps, rtt_s)
    return rate_bps * rtt_s / 8 / 4
    ### END SOLUTION


# %%
shares = (0.03, 0.07, 1 / 7, 0.25, 0.5, 1.0)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for flows in (2, 4, 8, 16):
    shared = Link(10e9, 100e-6, 1e6, flows=flows)
    results = [play(shared.with_marks(share * shared.bdp_bytes), "dctcp") for share in shares]
    left.semilogx(shares, [100 * one.used for one in results], "o-", label=f"{flows} flows")
    right.semilogx(shares, [one.queue_bytes / PACKET_BYTES for one in results], "o-")
    k_bytes = choose_k_bytes(shared.rate_bps, shared.rtt_s, flows)
    chosen = play(shared.with_marks(k_bytes), "dctcp")
    print(
        f"{flows} flows, K = {k_bytes / PACKET_BYTES:.1f}: {100 * chosen.used:.1f} % used,"
        f" queue {chosen.queue_bytes / PACKET_BYTES:.1f} packets"
    )
left.axvline(1 / 7, color="gray", linestyle=":")
left.set(xlabel="K / BDP", ylabel="link used (%)")
right.set(xlabel="K / BDP", ylabel="mean queue (packets)")
left.legend()
plt.show()

# %% [markdown]
# ## Questions
#
# 1. Why is the mean queue close to K, for any number of flows?
# 2. The bound says BDP / 7. At which number of flows does it fail here? How many packets has a window then?
#    Compute how much the window of the model is cut, with and without the packet by which it grew since the
#    mark: which assumption of the model does this break?
# 3. With 32 flows on a bandwidth-delay product of 42 packets and K below 20 packets every packet is marked,
#    and K has no effect. Why? (Try `play(Link(1e9, 500e-6, 1e6, 10 * PACKET_BYTES, 32), "dctcp")`, and other
#    K; a window has at least two packets.)
# 4. You run a network with 10 Gb/s and round trips of 100 us to 500 us. Which K do you configure, and whose
#    packets wait longer because of it?
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
