/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A congestion control whose window and pacing rate user space writes, into memory that both share.
 *
 * A connection's slot in the two maps is its socket's mark (SO_MARK). At every ACK its counters are written to
 * `flows`, and the window and rate are taken from `actions`. Where no window is given, and for connections
 * without a mark, it is Reno; so is what TCP retransmits, always.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "receiver.h"
#include "window.h"

#define FLOW_SLOTS 16384
#define UNLIMITED (~0ul)

char LICENSE[] SEC("license") = "GPL";

struct action {
	u64 cwnd_packets; /* 0: Reno decides */
	u64 pacing_bytes_per_s; /* 0: no pacing beyond the socket's own limit */
};

/* Cumulative since the connection was made. */
struct flow {
	u64 delivered; /* packets; so are the next four */
	u64 delivered_ce;
	u64 lost;
	u64 retransmitted;
	u64 sent;
	u64 delivered_bytes;
	u64 acks;
	u64 marked_acks;
	u64 timeouts;
	u64 rtt_sum_us;
	u64 rtt_samples;
	u64 rtt_us; /* the last sample */
	u64 srtt_us;
	u64 min_rtt_us;
	u64 in_flight;
	u64 cwnd_packets;
	u64 ssthresh_packets;
	u64 pacing_bytes_per_s; /* 0: none */
	u64 updated_ns; /* CLOCK_MONOTONIC */
	u64 phase; /* 1 connected, 2 closed */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct action);
} sgacts_0000 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct flow);
} sgflows_0000 SEC(".maps");

struct state {
	struct receiver receiver;
	struct window window;
	u64 first_bytes; /* the SYN counts as a byte and a packet, here not */
	u32 first_delivered;
};

INLINE struct flow *flow_of(struct sock *sk)
{
	u32 slot = sk->sk_mark;

	return slot ? bpf_map_lookup_elem(&sgflows_0000, &slot) : NULL;
}

INLINE struct action *action_of(struct sock *sk)
{
	u32 slot = sk->sk_mark;

	return slot ? bpf_map_lookup_elem(&sgacts_0000, &slot) : NULL;
}

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
	window->ssthresh = window->cwnd; /* where Reno takes over, it goes on from here */
	tp->snd_ssthresh = window->ssthresh;
}

INLINE void set_pacing(struct sock *sk, u64 rate)
{
	if (rate && rate < sk->sk_max_pacing_rate) {
		sk->sk_pacing_rate = rate;
		if (sk->sk_pacing_status == PACING_NONE)
			sk->sk_pacing_status = PACING_NEEDED;
	} else {
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	}
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
	state->first_bytes = tp->bytes_acked;
	state->first_delivered = tp->delivered;
	if (action && action->cwnd_packets)
		set_window(&state->window, tp, action->cwnd_packets);
	set_pacing(sk, action ? action->pacing_bytes_per_s : 0);
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

INLINE void reno(struct window *window, struct sock *sk, u32 ack, u32 acked, bool marked, bool may_grow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (marked && may_grow) {
		if (window_due(window, tp)) /* a mark is as a loss (RFC 3168, 6.1.2) */
			window_reduce(window, tp, window->cwnd / 2);
	} else if (may_grow) {
		window_grow(window, sk, ack, acked);
	}
}

INLINE void learned_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);
	struct window *window = &state->window;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS);
	bool marked = window_marked(window, tp);

	if (action && action->cwnd_packets)
		set_window(window, tp, action->cwnd_packets);
	else
		reno(window, sk, ack, sample->acked_sacked, marked, may_grow);
	set_pacing(sk, action ? action->pacing_bytes_per_s : 0);
	if (!flow)
		return;
	flow->acks += 1;
	if (marked)
		flow->marked_acks += 1;
	if (sample->rtt_us > 0) {
		flow->rtt_us = sample->rtt_us;
		flow->rtt_sum_us += sample->rtt_us;
		flow->rtt_samples += 1;
	}
	write_counters(flow, sk, state);
}

CONG_CONTROL(learned)
RESULTS(learned)

SEC("struct_ops")
void BPF_PROG(learned_set_state, struct sock *sk, u8 new_state)
{
	struct flow *flow = new_state == TCP_CA_Loss ? flow_of(sk) : NULL;

	if (flow)
		flow->timeouts += 1;
}

SEC("struct_ops")
void BPF_PROG(learned_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops sglearn_0000 = {
	.init = (void *)learned_init,
	.release = (void *)learned_release,
	.cong_control = (void *)learned_cong_control,
	.ssthresh = (void *)learned_ssthresh,
	.set_state = (void *)learned_set_state,
	.undo_cwnd = (void *)learned_undo_cwnd,
	.cwnd_event = (void *)learned_cwnd_event,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sglearn_0000",
};
