/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Reports of connections to user space, in shared memory: one map for all programs of a service. A connection's
 * slot is its socket's mark (SO_MARK); a connection without a mark reports nothing.
 */
#ifndef SYSGYM_REPORTS_H
#define SYSGYM_REPORTS_H

#include "kernel.h"
#include "decisions/drains.h"
#include "decisions/rtt_change.h"

#define FLOW_SLOTS 65536

/* Cumulative since the connection was made. All programs report round trips, only `learned` the rest. */
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
	u64 scaled; /* number of the last executed order to multiply the window */
	/* Not read by user space, but kept for a law, which has no more room of its own. */
	u64 rtt_change_ns; /* average of changes from a sample to the next */
	struct drains drains;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct flow);
} sgflows_0000 SEC(".maps");

INLINE struct flow *flow_of(struct sock *sk)
{
	u32 slot = sk->sk_mark;

	return slot ? bpf_map_lookup_elem(&sgflows_0000, &slot) : NULL;
}

/* User space clears the slot for a connection, but not where it gives one another law. */
INLINE void begin_round_trips(struct flow *flow)
{
	flow->rtt_us = flow->rtt_change_ns = 0;
}

/* One sample per ACK, as in the simulator: the round trip of the newest packet that it covers. */
INLINE void report_round_trip(struct flow *flow, const struct rate_sample *sample)
{
	if (sample->rtt_us > 0) {
		u64 before_us = flow->drains.end_us ? 0 : flow->rtt_us; /* those of a drain are no change of the delay */

		flow->rtt_change_ns = rtt_change_after(flow->rtt_change_ns, before_us, sample->rtt_us);
		flow->rtt_us = sample->rtt_us;
		flow->rtt_sum_us += sample->rtt_us;
		flow->rtt_samples += 1;
	}
}

#endif
