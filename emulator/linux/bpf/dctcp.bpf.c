/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP: both halves of RFC 8257.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "dctcp.h"
#include "receiver.h"
#include "reports.h"

char LICENSE[] SEC("license") = "GPL";

struct state {
	struct receiver receiver;
	struct window window;
	struct dctcp dctcp;
};

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);

	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	dctcp_start(&state->dctcp, tp);
}

INLINE void dctcp_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct state *state = PRIVATE(sk);
	struct window *window = &state->window;
	bool marked = window_marked(window, (struct tcp_sock *)sk);
	struct flow *flow = flow_of(sk);

	dctcp_react(&state->dctcp, window, sk, ack, sample->acked_sacked, marked);
	window_pace(sk);
	if (flow)
		report_round_trip(flow, sample);
	window_finish(window, sk, sample->acked_sacked);
}

CONG_CONTROL(dctcp)
RESULTS(dctcp)

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgdctcp_0000 = {
	.init = (void *)dctcp_init,
	.cong_control = (void *)dctcp_cong_control,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sgdctcp_0000",
};
