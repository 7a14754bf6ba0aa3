/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The output port of a switch or host: ECN step marking at K, and the statistics of its queue.
 *
 * Attached to every port's egress (clsact, direct action), so it sees each packet just before the queue takes
 * or drops it, together with the queue's backlog at that moment. The port's number is its device's group.
 *
 * Marking is DCTCP's: on the instantaneous queue, above a threshold (RFC 8257, 3.1). The queue's integral over
 * time counts the time between packets too: the backlog falls in a straight line from what the last packet left
 * to what this one finds, and where it finds none, it fell at the port's rate until it was empty.
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
#define LARGEST_BACKLOG (1u << 30)
#define NS_PER_S 1000000000ull

char LICENSE[] SEC("license") = "GPL";

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* One record a port, shared with user space; all bytes are those of IP packets. */
struct port {
	/* written by user space */
	u64 rate_bytes_per_s;
	u64 ecn_threshold_bytes; /* 0: no marking */
	u64 buffer_bytes;
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
	u64 reserved;
};

/* Time spent at each backlog: 16 buckets an octave. */
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

/* Time that the port needs to send so much. */
INLINE u64 drain_ns(const struct port *port, u32 bytes)
{
	return port->rate_bytes_per_s ? (u64)bytes * NS_PER_S / port->rate_bytes_per_s : 0;
}

/*
 * What a packet finds: the queue's own backlog, and what is left of the packet that is being sent. The shaper
 * has that one off the queue as soon as it may begin with it.
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

SEC("tc")
int sgport_0000(struct __sk_buff *packet)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(packet);
	struct net_device *device = skb->dev;
	struct Qdisc *queue;
	struct port *port;
	struct histogram *histogram;
	struct guard *guard;
	u64 now_ns, elapsed_ns = 0;
	u32 number, segments, bytes, backlog, drops, dropped, found;
	bool fits, mark;

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
	/* The queue counts headers of Ethernet too. */
	backlog = (u64)queue->qstats.backlog * FULL_PACKET / (FULL_PACKET + ETHERNET_HEADER);
	drops = queue->qstats.drops;
	if (backlog > LARGEST_BACKLOG)
		return TC_ACT_OK;
	fits = !port->buffer_bytes || backlog + bytes <= port->buffer_bytes;
	now_ns = bpf_ktime_get_ns();

	bpf_spin_lock(&guard->lock);
	if (port->last_ns == 0)
		port->qdisc_drops = drops;
	else if (now_ns > port->last_ns)
		elapsed_ns = now_ns - port->last_ns;
	found = queue_found(port, backlog, elapsed_ns);
	account(port, histogram, port->backlog_bytes, found, elapsed_ns);
	mark = fits && port->ecn_threshold_bytes && found > port->ecn_threshold_bytes;
	dropped = drops - (u32)port->qdisc_drops;
	port->dropped_packets += dropped;
	port->dropped_bytes += (u64)dropped * port->last_packet_bytes;
	port->qdisc_drops = drops;
	port->packets += segments;
	port->bytes += bytes;
	port->backlog_bytes = fits ? found + bytes : found;
	if (port->backlog_bytes > port->backlog_max_bytes)
		port->backlog_max_bytes = port->backlog_bytes;
	port->last_packet_bytes = bytes;
	if (now_ns > port->last_ns)
		port->last_ns = now_ns;
	bpf_spin_unlock(&guard->lock);

	/* 0 is a packet that is not ECN capable. */
	if (mark && bpf_skb_ecn_set_ce(packet))
		__sync_fetch_and_add(&port->marked_packets, segments);
	return TC_ACT_OK;
}
