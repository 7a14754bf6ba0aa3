/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Congestion control whose window and pacing rate are written by user space, into shared memory.
 *
 * A connection's slot in the two maps is its socket's mark (SO_MARK). At every ACK its counters are written to
 * `flows`, and the window and rate are taken from `actions`. Where no window is given, a base law has one of its
 * own, which user space may multiply (Orca: Abbasloo et al., SIGCOMM 2020, section 4): once an order the window
 * becomes so many times what it was, and the law goes on from there. What TCP retransmits is not asked about.
 *
 * It is registered twice, with and without ECN: ECN is a property of the whole congestion control, and base laws
 * that do not react to marks must not have them.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "actions.h"
#include "cubic.h"
#include "dctcp.h"
#include "receiver.h"
#include "reports.h"
#include "window.h"

#define UNLIMITED (~0ul)

#define BASE_RENO 0
#define BASE_CUBIC 1
#define BASE_DCTCP 2

char LICENSE[] SEC("license") = "GPL";

struct state {
	struct receiver receiver;
	struct window window;
	u64 first_bytes; /* excludes the SYN, which counts as a byte and a packet */
	u32 first_delivered;
	u32 scaled; /* number of the last executed order */
	union {
		struct cubic cubic;
		struct dctcp dctcp;
	};
};

_Static_assert(sizeof(struct state) <= PRIVATE_BYTES, "a connection has no more room");

INLINE void write_counters(struct flow *flow, struct sock *sk, struct state *state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	flow->delivered = tp->delivered - state->first_delivered;
	flow->delivered_ce = tp->delivered_ce;
	flow->lost = tp->lost;
	flow->retransmitted = tp->total_retrans;
	flow->sent = tp->data_segs_out;
	flow->delivered_bytes = tp->bytes_acked - state->first_bytes;
	flow->srtt_us = tp->srtt_us >> 3;
	flow->min_rtt_us = tp->rtt_min.s[0].v;
	flow->in_flight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	flow->cwnd_packets = tp->snd_cwnd;
	flow->ssthresh_packets = tp->snd_ssthresh;
	flow->pacing_bytes_per_s = sk->sk_pacing_rate == UNLIMITED ? 0 : sk->sk_pacing_rate;
	flow->updated_ns = bpf_ktime_get_ns();
}

INLINE void set_window(struct window *window, struct tcp_sock *tp, u64 packets)
{
	u32 most = tp->snd_cwnd_clamp;

	window_set(window, tp, packets < most ? packets : most);
	window->ssthresh = window->cwnd; /* if Reno takes over, it continues from here */
	tp->snd_ssthresh = window->ssthresh;
}

SEC("struct_ops")
void BPF_PROG(learned_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);

	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	if (action && action->base == BASE_DCTCP)
		dctcp_start(&state->dctcp, tp);
	else
		cubic_init(&state->cubic);
	state->scaled = action ? action->scaling >> 32 : 0;
	state->first_bytes = tp->bytes_acked;
	state->first_delivered = tp->delivered;
	if (action && action->cwnd_packets)
		set_window(&state->window, tp, action->cwnd_packets);
	window_pace_at(sk, action ? action->pacing_bytes_per_s : 0);
	if (flow) {
		write_counters(flow, sk, state);
		flow->phase = 1;
	}
}

SEC("struct_ops")
void BPF_PROG(learned_release, struct sock *sk)
{
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);

	if (flow && flow->phase == 1) {
		write_counters(flow, sk, state);
		flow->phase = 2;
	}
}

INLINE void reno(struct window *window, struct sock *sk, u32 ack, u32 acked, bool marked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS);

	if (marked && may_grow) {
		if (window_due(window, tp)) /* a mark counts as a loss (RFC 3168, 6.1.2) */
			window_reduce(window, tp, window->cwnd / 2);
	} else if (may_grow) {
		window_grow(window, sk, ack, acked);
	}
}

/* Execute an order to multiply the window, once. It stays between one packet and the largest window. */
INLINE void scale(struct state *state, struct tcp_sock *tp, struct action *action)
{
	struct window *window = &state->window;
	u64 order = action->scaling, most = action->most_packets, factor = (u32)order;
	bool is_cubic = action->base == BASE_CUBIC;
	u64 cwnd;

	if (state->scaled == order >> 32)
		return;
	state->scaled = order >> 32;
	if (factor == 1ull << 20)
		return; /* not even the fraction changes */
	cwnd = is_cubic ? cubic_window(&state->cubic, window) : (u64)window->cwnd << PACKET_SHIFT;
	most = (most && most < tp->snd_cwnd_clamp ? most : tp->snd_cwnd_clamp) << PACKET_SHIFT;
	cwnd = ((cwnd < most ? cwnd : most) >> 10) * factor >> 10;
	if (cwnd > most)
		cwnd = most;
	if (cwnd < 1ull << PACKET_SHIFT)
		cwnd = 1ull << PACKET_SHIFT;
	if (is_cubic)
		state->cubic.cwnd = cwnd;
	window_set(window, tp, cwnd >> PACKET_SHIFT);
}

INLINE void decide(struct sock *sk, struct state *state, struct action *action, u32 ack, u32 acked, bool marked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct window *window = &state->window;

	if (!action) {
		reno(window, sk, ack, acked, marked);
		window_pace_at(sk, 0);
		return;
	}
	if (action->cwnd_packets) {
		window_after_losses(window, tp, HALF_1024THS);
		set_window(window, tp, action->cwnd_packets);
	} else {
		if (action->base == BASE_CUBIC)
			cubic_on_ack(&state->cubic, window, sk, ack, acked);
		else if (action->base == BASE_DCTCP)
			dctcp_react(&state->dctcp, window, sk, ack, acked, marked);
		else
			reno(window, sk, ack, acked, marked);
		scale(state, tp, action);
	}
	if (action->pacing_bytes_per_s || action->cwnd_packets)
		window_pace_at(sk, action->pacing_bytes_per_s);
	else
		window_pace(sk);
}

/* Whether no window limits the connection, but its rate alone: then losses change nothing. */
INLINE bool without_window(struct action *action)
{
	return action && action->cwnd_packets && action->cwnd_packets >= action->most_packets;
}

INLINE void learned_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	bool marked = window_marked(&state->window, tp);

	decide(sk, state, action_of(sk), ack, sample->acked_sacked, marked);
	if (flow) {
		flow->acks += 1;
		if (marked)
			flow->marked_acks += 1;
		flow->scaled = state->scaled;
		report_round_trip(flow, sample);
		write_counters(flow, sk, state);
	}
	if (!without_window(action_of(sk)))
		window_finish(&state->window, sk, sample->acked_sacked);
}

CONG_CONTROL(learned)
RESULTS(learned)

SEC("struct_ops")
void BPF_PROG(learned_set_state, struct sock *sk, u8 new_state)
{
	struct flow *flow = new_state == TCP_CA_Loss ? flow_of(sk) : NULL;
	struct state *state = PRIVATE(sk);

	if (!without_window(action_of(sk)))
		window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
	if (flow)
		flow->timeouts += 1;
}

SEC("struct_ops")
void BPF_PROG(learned_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

#define REGISTERED(identifier, its_flags)                                                          \
	SEC(".struct_ops")                                                                         \
	struct tcp_congestion_ops identifier = {                                                   \
		.init = (void *)learned_init,                                                      \
		.release = (void *)learned_release,                                                \
		.cong_control = (void *)learned_cong_control,                                      \
		.ssthresh = (void *)learned_ssthresh,                                              \
		.set_state = (void *)learned_set_state,                                            \
		.undo_cwnd = (void *)learned_undo_cwnd,                                            \
		.cwnd_event = (void *)learned_cwnd_event,                                          \
		.flags = its_flags,                                                                \
		.name = #identifier,                                                               \
	}

REGISTERED(sglearn_0000, CONGESTION_CONTROL_NEEDS_ECN);
REGISTERED(sgplain_0000, 0);
