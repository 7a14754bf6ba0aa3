/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The receiver's half of DCTCP (RFC 8257, 3.2): ACKs tell the sender exactly which packets were marked.
 *
 * ECE in ACKs is the mark of the newest packet, not latched until CWR. When marks begin or end while a delayed
 * ACK is pending, that ACK is sent first, with the old ECE, for the packets before this one.
 */
#ifndef SYSGYM_RECEIVER_H
#define SYSGYM_RECEIVER_H

#include "kernel.h"

struct receiver {
	u32 received_up_to; /* rcv_nxt at the last packet */
	u32 marked; /* DCTCP.CE */
};

INLINE void receiver_init(struct receiver *receiver, struct sock *sk)
{
	receiver->received_up_to = ((struct tcp_sock *)sk)->rcv_nxt;
	receiver->marked = 0;
}

INLINE void receiver_event(struct receiver *receiver, struct sock *sk, enum tcp_ca_event event)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 marked;

	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_IS_CE))
		marked = 1;
	else if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_ECN_NO_CE))
		marked = 0;
	else
		return;
	if (marked != receiver->marked) {
		/* ecn_flags still describe the packets before this one. */
		if (connection->icsk_ack.pending & ACK_TIMER)
			bpf_tcp_send_ack(tp, receiver->received_up_to);
		connection->icsk_ack.pending |= ACK_NOW;
		receiver->marked = marked;
	}
	receiver->received_up_to = tp->rcv_nxt;
	if (marked)
		tp->ecn_flags |= DEMAND_CWR;
	else
		tp->ecn_flags &= ~DEMAND_CWR;
}

#endif
