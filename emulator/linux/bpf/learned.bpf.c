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

#define FLOW_SLOTS 16384

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
	u64 pacing_bytes_per_s;
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
	u32 first_delivered; /* the SYN counts as a packet, here not */
	u32 last_delivered_ce;
	u32 loss_cwnd;
	u32 in_reduction;
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

INLINE bool is_steered(struct sock *sk)
{
	struct action *action = action_of(sk);

	return action && action->cwnd_packets;
}

INLINE void write_counters(struct flow *flow, struct sock *sk, struct state *state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	flow->delivered = tp->delivered - state->first_delivered;
	flow->delivered_ce = tp->delivered_ce;
	flow->lost = tp->lost;
	flow->retransmitted = tp->total_retrans;
	flow->sent = tp->data_segs_out;
	flow->delivered_bytes = tp->bytes_acked;
	flow->srtt_us = tp->srtt_us >> 3;
	flow->min_rtt_us = tp->rtt_min.s[0].v;
	flow->in_flight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	flow->cwnd_packets = tp->snd_cwnd;
	flow->ssthresh_packets = tp->snd_ssthresh;
	flow->pacing_bytes_per_s = sk->sk_pacing_rate;
	flow->updated_ns = bpf_ktime_get_ns();
}

INLINE void act(struct action *action, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 window = action->cwnd_packets, rate = action->pacing_bytes_per_s;

	if (window)
		tp->snd_cwnd = window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
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
	state->first_delivered = tp->delivered;
	state->last_delivered_ce = tp->delivered_ce;
	state->loss_cwnd = 0;
	state->in_reduction = 0;
	if (action)
		act(action, sk);
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

INLINE void on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);

	if (!(action && action->cwnd_packets) && !state->in_reduction)
		tcp_reno_cong_avoid(sk, ack, sample->acked_sacked);
	if (action)
		act(action, sk);
	else
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	if (!flow)
		return;
	flow->acks += 1;
	if (tp->delivered_ce != state->last_delivered_ce) {
		state->last_delivered_ce = tp->delivered_ce;
		flow->marked_acks += 1;
	}
	if (sample->rtt_us > 0) {
		flow->rtt_us = sample->rtt_us;
		flow->rtt_sum_us += sample->rtt_us;
		flow->rtt_samples += 1;
	}
	write_counters(flow, sk, state);
}

#if KERNEL >= 6010
SEC("struct_ops")
void BPF_PROG(learned_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
	on_ack(sk, ack, sample);
}
#else
SEC("struct_ops")
void BPF_PROG(learned_cong_control, struct sock *sk, const struct rate_sample *sample)
{
	on_ack(sk, ((struct tcp_sock *)sk)->snd_una, sample);
}
#endif

SEC("struct_ops")
u32 BPF_PROG(learned_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);

	state->loss_cwnd = tp->snd_cwnd;
	return larger(is_steered(sk) ? tp->snd_cwnd : tp->snd_cwnd >> 1, 2);
}

SEC("struct_ops")
void BPF_PROG(learned_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);

	if (new_state == TCP_CA_Loss) {
		struct flow *flow = flow_of(sk);

		if (flow)
			flow->timeouts += 1;
		state->in_reduction = 0; /* slow start, from one packet */
	} else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery) {
		/* Steered by nobody, the window falls at once to what Reno wants. */
		if (!state->in_reduction && !is_steered(sk))
			tp->snd_cwnd = tp->snd_ssthresh;
		state->in_reduction = 1;
	} else if (new_state == TCP_CA_Open) {
		state->in_reduction = 0;
	}
}

SEC("struct_ops")
u32 BPF_PROG(learned_undo_cwnd, struct sock *sk)
{
	struct state *state = PRIVATE(sk);

	return larger(((struct tcp_sock *)sk)->snd_cwnd, state->loss_cwnd);
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
