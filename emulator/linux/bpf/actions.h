/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Controls that user space sets for connections, in shared memory: one map for all programs that have controls.
 * A connection's slot is its socket's mark (SO_MARK); a connection without a mark has no controls.
 */
#ifndef SYSGYM_ACTIONS_H
#define SYSGYM_ACTIONS_H

#include "reports.h"

#define PARAMETER_SETS 16

struct action {
	u64 cwnd_packets; /* 0: the base law decides */
	u64 pacing_bytes_per_s; /* 0: no pacing beyond the socket's own limit */
	u64 base; /* law of the window; it does not change while there is a connection */
	u64 most_packets; /* the window is not multiplied beyond; 0: no bound */
	u64 scaling; /* number of an order in the upper half, a factor in 2^-20 in the lower */
	u64 parameters; /* laws that have some: number of their set */
	u64 line_ns; /* the same laws: what a packet takes on the sender's line */
	u64 path_measured; /* the same laws: 0 if the scenario says that the least round trip is the empty path's */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FLOW_SLOTS);
	__type(key, u32);
	__type(value, struct action);
} sgacts_0000 SEC(".maps");

INLINE struct action *action_of(struct sock *sk)
{
	u32 slot = sk->sk_mark;

	return slot ? bpf_map_lookup_elem(&sgacts_0000, &slot) : NULL;
}

#endif
