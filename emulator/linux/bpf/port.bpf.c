/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The output port of a switch or host: ECN step marking at K, random early detection, and its queue's statistics.
 *
 * Attached to every port's egress (clsact, direct action), so it sees each packet just before the queue takes
 * or drops it, together with the queue's backlog at that moment. The port's number is its device's group.
 *
 * Marking is DCTCP's: on the instantaneous queue, above a threshold (RFC 8257, 3.1). The queue's integral over
 * time counts the time between packets too: the backlog falls in a straight line from what the last packet left
 * to what this one finds, and where it finds none, it fell at the port's rate until it was empty.
 *
 * Random early detection (Floyd and Jacobson, ToN 1993) is the simulator's law, emulator/packets/engine/discipline.py,
 * with its average in fixed point: the kernel's own sch_red is not needed, and what it drops is counted here.
 *
 * A packet that is to be lost at random on the cable behind the queue is lost before it, and counted as dropped.
 *
 * The licence string must say GPL: the kernel lends bpf_ktime_get_ns and BTF pointers to no other program.
 * That is why this file may be used under the GPL as well as under the project's licence.
 */
#include "kernel.h"

#define PORT_SLOTS 4096
#define BUCKETS 512
#define ETHERNET_HEADER 14
#define FULL_PACKET 1500
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TC_ACT_STOLEN 4 /* a loss of which the sender hears nothing; a local sender would notice a drop */
#define LARGEST_BACKLOG (1u << 30)
#define NS_PER_S 1000000000ull
#define ONE_Q30 (1ull << 30)
#define ONE_Q32 (1ull << 32)
/* Coefficients of 2^-x = 1 - c1 x + c2 x^2 - c3 x^3 + c4 x^4, fitted to 0 .. 1. */
#define HALVED_C1 744184767ull
#define HALVED_C2 257194104ull
#define HALVED_C3 57282819ull
#define HALVED_C4 7404729ull
#define MOST_HALVINGS 60 /* after which an average of at most 2^54 is 0 */

char LICENSE[] SEC("license") = "GPL";

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* One record per port, shared with user space; all bytes are those of IP packets. */
struct port {
	/* written by user space */
	u64 rate_bytes_per_s;
	u64 ecn_threshold_bytes; /* 0: no marking */
	u64 buffer_bytes;
	u64 red_max_bytes; /* 0: no random early detection */
	u64 red_min_bytes;
	u64 red_max_probability_q30;
	u64 red_weight_q30;
	u64 red_half_life_ns; /* of the average while the queue is empty; 0: the average stays */
	u64 red_gentle;
	u64 red_drops; /* 0: marks */
	u64 loss_q32; /* probability that a packet is lost on the cable behind, times 2^32 */
	u64 since_ns; /* when the counters were set to zero */
	/* written here */
	u64 packets; /* offered to the queue, those dropped included */
	u64 bytes;
	u64 marked_packets;
	u64 dropped_packets;
	u64 dropped_bytes;
	u64 backlog_bytes; /* behind the last packet */
	u64 backlog_max_bytes;
	u64 backlog_integral_byte_ns;
	u64 last_ns;
	u64 last_packet_bytes;
	u64 qdisc_drops; /* the queue's own counter, as last seen */
	u64 red_average_q24; /* bytes */
};

/* Time spent at each backlog: 16 buckets per octave. */
struct histogram {
	u64 time_ns[BUCKETS];
};

/* A port's packets may be sent from several processors at once. */
struct guard {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PORT_SLOTS);
	__type(key, u32);
	__type(value, struct port);
} sgports_0000 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PORT_SLOTS);
	__type(key, u32);
	__type(value, struct histogram);
} sghisto_0000 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORT_SLOTS);
	__type(key, u32);
	__type(value, struct guard);
} sgguard_0000 SEC(".maps");

INLINE u32 bucket_of(u32 value)
{
	u32 octave = 0;

	if (value < 32)
		return value;
	if (value >> 20)
		octave += 16;
	if (value >> (octave + 12))
		octave += 8;
	if (value >> (octave + 8))
		octave += 4;
	if (value >> (octave + 6))
		octave += 2;
	if (value >> (octave + 5))
		octave += 1;
	return octave * 16 + (value >> octave);
}

INLINE void spend(struct histogram *histogram, u32 bytes, u64 time_ns)
{
	histogram->time_ns[bucket_of(bytes) & (BUCKETS - 1)] += time_ns;
}

/* Time that the port needs to send a number of bytes. */
INLINE u64 drain_ns(const struct port *port, u32 bytes)
{
	return port->rate_bytes_per_s ? (u64)bytes * NS_PER_S / port->rate_bytes_per_s : 0;
}

/*
 * Backlog that a packet finds: the queue's own, plus the rest of the packet in transmission. The shaper takes
 * that packet off the queue as soon as it may begin to send it.
 */
INLINE u32 queue_found(const struct port *port, u32 backlog, u64 elapsed_ns)
{
	u32 left = 0;

	if (elapsed_ns < drain_ns(port, port->backlog_bytes))
		left = port->backlog_bytes - elapsed_ns * port->rate_bytes_per_s / NS_PER_S;
	if (left > backlog + FULL_PACKET)
		left = backlog + FULL_PACKET;
	return left > backlog ? left : backlog;
}

/* Accounts for the time since the last packet, in which the queue fell from `from` to `to`. */
INLINE void account(struct port *port, struct histogram *histogram, u32 from, u32 to, u64 elapsed_ns)
{
	u64 busy_ns = elapsed_ns;

	if (to == 0 && port->rate_bytes_per_s && drain_ns(port, from) < busy_ns)
		busy_ns = drain_ns(port, from);
	port->backlog_integral_byte_ns += ((u64)from + to) * busy_ns / 2;
	spend(histogram, 0, elapsed_ns - busy_ns);
	if (bucket_of(from) == bucket_of(to)) {
		spend(histogram, from, busy_ns);
		return;
	}
	/* The line from one to the other, as four steps. */
	spend(histogram, from / 8 * 7 + to / 8, busy_ns / 4);
	spend(histogram, from / 8 * 5 + to / 8 * 3, busy_ns / 4);
	spend(histogram, from / 8 * 3 + to / 8 * 5, busy_ns / 4);
	spend(histogram, from / 8 + to / 8 * 7, busy_ns - busy_ns / 4 * 3);
}

/* A number below 2^54 times one of at most 1. */
INLINE u64 share(u64 value, u64 fraction_q30)
{
	return ((value >> 24) * fraction_q30 >> 6) + ((value & 0xffffff) * fraction_q30 >> 30);
}

/* 2^-x for 0 <= x < 1: a polynomial of the fourth degree, exact to five digits. */
INLINE u64 halved_q30(u64 x_q30)
{
	u64 y_q30;

	y_q30 = HALVED_C3 - (HALVED_C4 * x_q30 >> 30);
	y_q30 = HALVED_C2 - (y_q30 * x_q30 >> 30);
	y_q30 = HALVED_C1 - (y_q30 * x_q30 >> 30);
	return ONE_Q30 - (y_q30 * x_q30 >> 30);
}

/* The average falls while the queue is empty, as if small packets had arrived. */
INLINE u64 after_idling(u64 average_q24, u64 half_life_ns, u64 idle_ns)
{
	u64 halvings, rest_q30;

	if (!half_life_ns)
		return average_q24;
	halvings = idle_ns / half_life_ns;
	if (halvings >= MOST_HALVINGS)
		return 0;
	/* A half-life is below 2^34 ns, or so long that its low bits do not matter. */
	rest_q30 = idle_ns % half_life_ns;
	if (half_life_ns >> 34)
		rest_q30 = (rest_q30 >> 14 << 30) / (half_life_ns >> 14);
	else
		rest_q30 = (rest_q30 << 30) / half_life_ns;
	return share(average_q24 >> halvings, halved_q30(rest_q30));
}

/* Probability of a mark, 2^32 for 1. */
INLINE u64 red_probability_q32(const struct port *port, u64 average_q24)
{
	u64 low = port->red_min_bytes, high = port->red_max_bytes;
	u64 largest_q30 = port->red_max_probability_q30, share_q30;

	if (average_q24 >> 24 < low)
		return 0;
	if (average_q24 >> 24 < high) {
		share_q30 = ((average_q24 - (low << 24)) >> 8 << 14) / (high - low);
		return largest_q30 * share_q30 >> 28;
	}
	if (port->red_gentle && average_q24 >> 25 < high) {
		share_q30 = ((average_q24 - (high << 24)) >> 8 << 14) / high;
		return (largest_q30 << 2) + ((ONE_Q30 - largest_q30) * share_q30 >> 28);
	}
	return ONE_Q32;
}

/*
 * Whether to mark or drop early a packet that fits. A bundle of packets counts as several packets that found the
 * same queue, and shares one draw.
 */
INLINE bool is_early(struct port *port, u32 found, u64 idle_ns, u32 segments, u32 draw)
{
	u64 weight_q30 = port->red_weight_q30 * segments, average_q24 = port->red_average_q24;
	u64 found_q24 = (u64)found << 24;

	if (weight_q30 > ONE_Q30)
		weight_q30 = ONE_Q30;
	if (found == 0)
		average_q24 = after_idling(average_q24, port->red_half_life_ns, idle_ns);
	if (found_q24 > average_q24)
		average_q24 += share(found_q24 - average_q24, weight_q30);
	else
		average_q24 -= share(average_q24 - found_q24, weight_q30);
	port->red_average_q24 = average_q24;
	return draw < red_probability_q32(port, average_q24);
}

SEC("tc")
int sgport_0000(struct __sk_buff *packet)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(packet);
	struct net_device *device = skb->dev;
	struct Qdisc *queue;
	struct port *port;
	struct histogram *histogram;
	struct guard *guard;
	u64 now_ns, elapsed_ns = 0, idle_ns = 0;
	u32 number, segments, bytes, backlog, drops, dropped, found, draw;
	bool fits, mark, early = false, refused, lost;

	if (!device)
		return TC_ACT_OK;
	/* The sender's socket has drawn a number for the packet, and draws another one after a time-out. With it
	 * the next router would choose among its paths by that, not by its own hash of the 5-tuple. */
	bpf_set_hash_invalid(packet);
	number = device->group;
	queue = device->qdisc;
	port = bpf_map_lookup_elem(&sgports_0000, &number);
	histogram = bpf_map_lookup_elem(&sghisto_0000, &number);
	guard = bpf_map_lookup_elem(&sgguard_0000, &number);
	if (!queue || !port || !histogram || !guard)
		return TC_ACT_OK;
	segments = packet->gso_segs > 1 ? packet->gso_segs : 1;
	bytes = packet->wire_len - segments * ETHERNET_HEADER;
	/* The queue counts Ethernet headers, too. */
	backlog = (u64)queue->qstats.backlog * FULL_PACKET / (FULL_PACKET + ETHERNET_HEADER);
	drops = queue->qstats.drops;
	if (backlog > LARGEST_BACKLOG)
		return TC_ACT_OK;
	fits = !port->buffer_bytes || backlog + bytes <= port->buffer_bytes;
	now_ns = bpf_ktime_get_ns();
	/* Numbers must not be drawn with the lock held. */
	draw = port->red_max_bytes ? bpf_get_prandom_u32() : 0;
	lost = port->loss_q32 && bpf_get_prandom_u32() < port->loss_q32;

	bpf_spin_lock(&guard->lock);
	if (port->last_ns == 0)
		port->qdisc_drops = drops;
	else if (now_ns > port->last_ns)
		elapsed_ns = now_ns - port->last_ns;
	found = queue_found(port, backlog, elapsed_ns);
	account(port, histogram, port->backlog_bytes, found, elapsed_ns);
	if (elapsed_ns > drain_ns(port, port->backlog_bytes))
		idle_ns = elapsed_ns - drain_ns(port, port->backlog_bytes);
	if (fits && port->red_max_bytes)
		early = is_early(port, found, idle_ns, segments, draw);
	refused = lost || (early && port->red_drops);
	mark = fits && port->ecn_threshold_bytes && found > port->ecn_threshold_bytes;
	mark = mark || (early && !port->red_drops);
	dropped = drops - (u32)port->qdisc_drops;
	port->dropped_packets += dropped;
	port->dropped_bytes += (u64)dropped * port->last_packet_bytes;
	port->qdisc_drops = drops;
	port->packets += segments;
	port->bytes += bytes;
	if (refused) {
		port->dropped_packets += segments;
		port->dropped_bytes += bytes;
	}
	port->backlog_bytes = fits && !refused ? found + bytes : found;
	if (port->backlog_bytes > port->backlog_max_bytes)
		port->backlog_max_bytes = port->backlog_bytes;
	port->last_packet_bytes = bytes;
	if (now_ns > port->last_ns)
		port->last_ns = now_ns;
	bpf_spin_unlock(&guard->lock);

	if (refused)
		return lost ? TC_ACT_STOLEN : TC_ACT_SHOT;
	/* 0 means that the packet is not ECN capable. */
	if (mark && bpf_skb_ecn_set_ce(packet))
		__sync_fetch_and_add(&port->marked_packets, segments);
	return TC_ACT_OK;
}
