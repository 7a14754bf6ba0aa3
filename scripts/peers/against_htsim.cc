// Driver of htsim for against_htsim.py: long-lived DCTCP flows on a network that is given link by link.
//
// Standard input: numbers, separated by white space:
//   packet_bytes mark_bytes buffer_bytes warmup_ns end_ns
//   n_links, then of each link: rate in bit/s, delay in ns
//   n_flows, then of each flow: start in ns, n links of its data and these links, the same of its ACKs
// Standard output: hops after the warm-up, their processor time in s, goodput after the warm-up in bit/s.

#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <vector>

#include "dctcp.h"
#include "ecnqueue.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "route.h"
#include "tcp.h"

using std::cin;
using std::cout;
using std::unique_ptr;
using std::vector;

static uint64_t hops = 0;

// A port that counts the packets that leave it: one packet-hop each.
class Port : public ECNQueue {
  public:
    using ECNQueue::ECNQueue;
    void completeService() override {
        ++hops;
        ECNQueue::completeService();
    }
};

struct Link {
    unique_ptr<Port> port;
    unique_ptr<Pipe> wire;
};

static Route* read_route(const vector<Link>& links) {
    size_t length;
    cin >> length;
    Route* route = new Route();
    for (size_t hop = 0; hop < length; ++hop) {
        size_t number;
        cin >> number;
        route->push_back(links.at(number).port.get());
        route->push_back(links.at(number).wire.get());
    }
    return route;
}

static uint64_t received_bytes(const vector<TcpSink*>& sinks) {
    uint64_t total = 0;
    for (TcpSink* sink : sinks) total += sink->_cumulative_ack;
    return total;
}

static void run_until(simtime_picosec end) {
    while (EventList::now() < end && EventList::doNextEvent()) {
    }
}

int main() {
    cout.setstate(std::ios_base::failbit);  // htsim prints as it goes
    cin.exceptions(std::ios_base::failbit);
    EventList& events = EventList::getTheEventList();
    uint64_t packet_bytes, mark_bytes, buffer_bytes, warmup_ns, end_ns;
    cin >> packet_bytes >> mark_bytes >> buffer_bytes >> warmup_ns >> end_ns;
    Packet::set_packet_size(packet_bytes);

    size_t n_links;
    cin >> n_links;
    vector<Link> links(n_links);
    for (Link& link : links) {
        uint64_t rate_bps, delay_ns;
        cin >> rate_bps >> delay_ns;
        link.port.reset(new Port(rate_bps, buffer_bytes, events, nullptr, mark_bytes));
        link.wire.reset(new Pipe(delay_ns * 1000, events));
    }

    TcpRtxTimerScanner timers(timeFromMs(10), events);
    size_t n_flows;
    cin >> n_flows;
    vector<TcpSink*> sinks;
    for (size_t flow = 0; flow < n_flows; ++flow) {
        uint64_t start_ns;
        cin >> start_ns;
        TcpSrc* source = new DCTCPSrc(nullptr, nullptr, events);
        TcpSink* sink = new TcpSink();
        Route* out = read_route(links);
        Route* back = read_route(links);
        out->push_back(sink);
        back->push_back(source);
        timers.registerTcp(*source);
        source->connect(*out, *back, *sink, start_ns * 1000);
        sinks.push_back(sink);
    }

    run_until(warmup_ns * 1000);
    const uint64_t hops_before = hops, bytes_before = received_bytes(sinks);
    const std::clock_t began = std::clock();
    run_until(end_ns * 1000);
    const double cpu_s = double(std::clock() - began) / CLOCKS_PER_SEC;
    const double span_s = double(end_ns - warmup_ns) * 1e-9;
    cout.clear();
    cout << hops - hops_before << ' ' << cpu_s << ' '
         << 8.0 * double(received_bytes(sinks) - bytes_before) / span_s << std::endl;
    return 0;
}
