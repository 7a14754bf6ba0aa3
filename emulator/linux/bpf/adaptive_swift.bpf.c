/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The law `adaptive_swift`, as the simulator has it (emulator/packets/transports/adaptive_swift.py): at each ACK the
 * window follows the queue that the round trip tells of, around a target that adapts to other laws.
 *
 * Its constants lie in a map that user space writes before there are connections; a connection's slot in `actions`
 * says which ones are its. What the simulator knows and a host does not, the empty round trip, is the least that the
 * kernel has seen. Without constants, as at the end that only receives, the window stays as it is.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "actions.h"
#include "adaptive_swift.h"
#include "receiver.h"
#include "rounds.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PARAMETER_SETS);
	__type(key, u32);
	__type(value, struct constants);
} sgswcon_0000 SEC(".maps");

struct state {
	struct receiver receiver;
	struct window window;
	struct round round;
	struct law law;
};

_Static_assert(sizeof(struct state) <= PRIVATE_BYTES, "a connection has no more room");

INLINE struct constants *constants_of(struct action *action)
{
	u32 number = action ? action->parameters : PARAMETER_SETS;

	return bpf_map_lookup_elem(&sgswcon_0000, &number);
}

INLINE void apply(struct state *state, struct sock *sk, struct constants *constants)
{
	struct law *law = &state->law;
	u32 pace = constants ? constants->pace : FIXED_ONE;

	law->packets = set_window(&state->window, sk, law->packets, law->ssthresh, pace);
}

SEC("struct_ops")
void BPF_PROG(swift_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct constants *constants = constants_of(action_of(sk));
	u64 share = constants ? constants->first_window : FIXED_ONE;

	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	state->round.timed_out = 0;
	round_begin(&state->round, tp);
	law_start(&state->law, bounded(tp->snd_cwnd * share), tp->tcp_mstamp);
	apply(state, sk, constants);
}

/* Packets delivered so far include the SYN. */
INLINE void end_round(struct state *state, struct tcp_sock *tp, struct constants *constants, u32 line_ns)
{
	struct round *round = &state->round;
	struct seen seen = {
		.mean_rtt_ns = round->rtt_sum_us * 1000ull / larger(round->rtt_samples, 1),
		.least_rtt_ns = round->rtt_least_us * 1000ull,
		.base_rtt_ns = tp->rtt_min.s[0].v * 1000ull,
		.line_ns = line_ns,
		.delivered_packets = tp->delivered,
		.marked_share = round_marked_share(round, tp),
		.lost = round->lost,
	};

	law_end_round(constants, &state->law, &seen);
	state->law.packets = bounded(state->law.packets);
	round_begin(round, tp);
}

/* After a time-out the window is one packet (RFC 5681, 3.1). */
INLINE bool after_losses(struct state *state, struct tcp_sock *tp, struct constants *constants)
{
	struct law *law = &state->law;
	enum news news = news_of_losses(&state->round, &state->window, tp);

	if (news == TIMED_OUT) {
		law->ssthresh = larger(law->packets / 2, LEAST_SSTHRESH);
		law->packets = FIXED_ONE;
	}
	if (news == BEGINS_TO_RECOVER)
		law_lose(constants, law, tp->tcp_mstamp);
	return news == NO_NEWS || news == TIMED_OUT;
}

INLINE bool follow(struct state *state, struct tcp_sock *tp, struct constants *constants, u32 line_ns, u32 rtt_us)
{
	struct told told = {
		.rtt_ns = rtt_us * 1000ull,
		.base_rtt_ns = tp->rtt_min.s[0].v * 1000ull,
		.present_rtt_us = larger(tp->srtt_us >> 3, tp->rtt_min.s[0].v),
		.now_us = tp->tcp_mstamp,
		.line_ns = line_ns,
	};

	return law_follow(constants, &state->law, &told);
}

INLINE void decide(struct state *state, struct tcp_sock *tp, struct constants *constants, u32 line_ns,
		   const struct rate_sample *sample)
{
	struct law *law = &state->law;
	bool may_grow = after_losses(state, tp, constants);

	round_sample(&state->round, sample);
	if (window_marked(&state->window, tp))
		law->ssthresh = smaller(law->ssthresh, law->packets);
	if (sample->rtt_us > 0 && follow(state, tp, constants, line_ns, smaller(sample->rtt_us, LONGEST_RTT_US)) &&
	    may_grow && limits_the_flow(tp, law->packets, law->packets < law->ssthresh))
		law->packets = bounded(law_grow(constants, law, sample->acked_sacked));
	if (round_is_over(&state->round, tp))
		end_round(state, tp, constants, line_ns);
}

INLINE void swift_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);
	struct constants *constants = constants_of(action);

	if (action && constants)
		decide(state, tp, constants, action->line_ns, sample);
	apply(state, sk, constants);
	if (flow)
		report_round_trip(flow, sample);
	window_finish(&state->window, sk, sample->acked_sacked);
}

CONG_CONTROL(swift)
RESULTS(swift)

SEC("struct_ops")
void BPF_PROG(swift_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
	if (new_state == TCP_CA_Loss)
		state->round.timed_out = 1;
}

SEC("struct_ops")
void BPF_PROG(swift_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgswift_0000 = {
	.init = (void *)swift_init,
	.cong_control = (void *)swift_cong_control,
	.ssthresh = (void *)swift_ssthresh,
	.set_state = (void *)swift_set_state,
	.undo_cwnd = (void *)swift_undo_cwnd,
	.cwnd_event = (void *)swift_cwnd_event,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sgswift_0000",
};
