/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The kernel structures that the programs of this folder read.
 *
 * They list only the members in use, in any order: every access is a CO-RE relocation, so libbpf finds the
 * members' real offsets in the running kernel's BTF, and one source serves all kernels that have BTF.
 *
 * "0000" in a name is replaced, in the compiled object, by the four hex digits of the service that loads it.
 */
#ifndef SYSGYM_KERNEL_H
#define SYSGYM_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define INLINE static inline __attribute__((always_inline))
#define FROM_KERNEL __attribute__((preserve_access_index))

/* ---- devices and their queues ---- */

struct gnet_stats_queue {
	u32 backlog;
	u32 drops;
} FROM_KERNEL;

struct Qdisc {
	struct gnet_stats_queue qstats;
} FROM_KERNEL;

struct net_device {
	struct Qdisc *qdisc;
	int group;
} FROM_KERNEL;

struct sk_buff {
	struct net_device *dev;
} FROM_KERNEL;

/* ---- TCP ---- */

enum tcp_ca_state {
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum tcp_ca_event {
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

#define CONGESTION_CONTROL_NEEDS_ECN 2 /* TCP_CONG_NEEDS_ECN: all packets are ECN capable */
#define DEMAND_CWR 4 /* TCP_ECN_DEMAND_CWR: ACKs carry ECE */
#define ACK_TIMER 2 /* ICSK_ACK_TIMER: a delayed ACK is pending */
#define ACK_NOW 16 /* ICSK_ACK_NOW */
#define PACING_NONE 0
#define PACING_NEEDED 1
#define UNKNOWN_SSTHRESH 0x7fffffff /* TCP_INFINITE_SSTHRESH */

struct sock {
	u32 sk_mark;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
} FROM_KERNEL;

struct inet_connection_sock {
	u8 icsk_ca_state : 5;
	u8 icsk_ca_initialized : 1;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
} FROM_KERNEL;

struct minmax_sample {
	u32 v;
} FROM_KERNEL;

struct minmax {
	struct minmax_sample s[3];
} FROM_KERNEL;

struct tcp_sock {
	u64 bytes_acked;
	u32 data_segs_out;
	u32 delivered;
	u32 delivered_ce;
	u8 ecn_flags;
	u8 is_cwnd_limited : 1;
	u32 lost;
	u32 lost_out;
	u32 max_packets_out;
	u32 mss_cache;
	u32 packets_out;
	u32 prr_out;
	u32 rcv_nxt;
	u32 retrans_out;
	struct minmax rtt_min;
	u32 sacked_out;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_nxt;
	u32 snd_ssthresh;
	u32 snd_una;
	u32 srtt_us;
	u64 tcp_mstamp; /* time of the newest packet, us */
	u32 total_retrans;
} FROM_KERNEL;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight; /* bytes in flight when the newest acknowledged packet was sent */
} FROM_KERNEL;

struct rate_sample {
	long rtt_us;
	u32 acked_sacked;
} FROM_KERNEL;

struct tcp_congestion_ops {
	void (*init)(struct sock *);
	void (*release)(struct sock *);
	u32 (*ssthresh)(struct sock *);
	u32 (*undo_cwnd)(struct sock *);
#if KERNEL >= 6010
	void (*cong_control)(struct sock *, u32, int, const struct rate_sample *);
#else
	void (*cong_control)(struct sock *, const struct rate_sample *);
#endif
	void (*set_state)(struct sock *, u8);
	void (*cwnd_event)(struct sock *, enum tcp_ca_event);
	void (*pkts_acked)(struct sock *, const struct ack_sample *);
	u32 flags;
	char name[16];
};

extern void tcp_reno_cong_avoid(struct sock *, u32, u32) __ksym;

/* Whether a sequence number is after another one. */
INLINE bool behind(u32 sequence, u32 other)
{
	return (s32)(sequence - other) < 0;
}

INLINE u32 larger(u32 one, u32 other)
{
	return one > other ? one : other;
}

INLINE u32 smaller(u32 one, u32 other)
{
	return one < other ? one : other;
}

/* Congestion control state of every connection. */
#define PRIVATE_BYTES 104
#define PRIVATE(sk) ((void *)((struct inet_connection_sock *)(sk))->icsk_ca_priv)

#endif
