/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * One end of a long cable: frames from one interface leave by the other, where a netem queue delays them.
 *
 * The interfaces of a cable are numbered 2n and 2n + 1. Frames are not inspected: no address, no route.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tc")
int sgwire_0000(struct __sk_buff *packet)
{
	return bpf_redirect(packet->ifindex ^ 1, 0);
}
