// The ns-3 side of against_ns3.py: builds the network that it is told on standard input, runs the flows on ns-3's
// TCP, and prints what was measured, one "key values" line each. See docs/against-ns3.md for what is set and why.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

constexpr uint16_t kServicePort = 5001;
constexpr uint16_t kFirstClientPort = 10000;
constexpr int64_t kHandshakesNs = 100'000'000;  // Connections are set up before the flows' time begins.

// Time-averaged backlog of one port: queue disc, device queue and what is left of the packet on the wire.
class QueueMeter {
 public:
  QueueMeter(Ptr<QueueDisc> disc, Ptr<PointToPointNetDevice> device, double bytes_per_ns)
      : disc_(disc), bytes_per_ns_(bytes_per_ns) {
    disc->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&QueueMeter::DiscChanged, this));
    device->GetQueue()->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&QueueMeter::DeviceChanged, this));
    device->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&QueueMeter::Sends, this));
  }

  void Begin() {
    Integrate();
    byte_ns_ = 0;
    sent_bytes_ = 0;
    at_begin_ = disc_->GetStats();
  }

  void End() {
    Integrate();
    const auto& stats = disc_->GetStats();
    arrived_ = stats.nTotalReceivedPackets - at_begin_.nTotalReceivedPackets;
    dropped_ = stats.nTotalDroppedPackets - at_begin_.nTotalDroppedPackets;
    marked_ = stats.nTotalMarkedPackets - at_begin_.nTotalMarkedPackets;
    total_byte_ns_ = byte_ns_;
    total_sent_ = sent_bytes_;
  }

  double total_byte_ns_ = 0, total_sent_ = 0;
  uint64_t arrived_ = 0, dropped_ = 0, marked_ = 0;

 private:
  void Integrate() {
    const int64_t now_ns = Simulator::Now().GetNanoSeconds();
    byte_ns_ += static_cast<double>(disc_bytes_ + device_bytes_) * static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
  }
  void DiscChanged(uint32_t, uint32_t now_bytes) {
    Integrate();
    disc_bytes_ = now_bytes;
  }
  void DeviceChanged(uint32_t, uint32_t now_bytes) {
    Integrate();
    device_bytes_ = now_bytes;
  }
  void Sends(Ptr<const Packet> packet) {
    const double size = packet->GetSize();
    sent_bytes_ += size;
    byte_ns_ += 0.5 * size * size / bytes_per_ns_;  // it shrinks from its size to nothing while it is sent
  }

  Ptr<QueueDisc> disc_;
  double bytes_per_ns_, byte_ns_ = 0, sent_bytes_ = 0;
  int64_t last_ns_ = 0;
  uint32_t disc_bytes_ = 0, device_bytes_ = 0;
  QueueDisc::Stats at_begin_;
};

// A cable whose packets from a host arrive up to jitter_ns later, in order: what sysgym's hosts do.
class HostCable : public PointToPointChannel {
 public:
  void AddJitter(Ptr<PointToPointNetDevice> host, int64_t jitter_ns) {
    jitter_[PeekPointer(host)] = Jitter{jitter_ns, CreateObject<UniformRandomVariable>(), 0};
  }
  bool TransmitStart(Ptr<const Packet> packet, Ptr<PointToPointNetDevice> source, Time duration) override {
    const auto found = jitter_.find(PeekPointer(source));
    if (found != jitter_.end()) {
      Jitter& jitter = found->second;
      const int64_t now_ns = Simulator::Now().GetNanoSeconds();
      const int64_t arrives_ns = now_ns + duration.GetNanoSeconds() +
                                 static_cast<int64_t>(jitter.draw->GetValue(0, static_cast<double>(jitter.most_ns)));
      jitter.last_ns = std::max(arrives_ns, jitter.last_ns);
      duration = NanoSeconds(jitter.last_ns - now_ns);
    }
    return PointToPointChannel::TransmitStart(packet, source, duration);
  }

 private:
  struct Jitter {
    int64_t most_ns;
    Ptr<UniformRandomVariable> draw;
    int64_t last_ns;
  };
  std::map<const PointToPointNetDevice*, Jitter> jitter_;
};

// The way of every flow's data and of its ACKs through one node, looked up by the client's port.
class FlowRouting : public Ipv4RoutingProtocol {
 public:
  void Add(uint32_t flow, bool acks, uint32_t interface) {
    auto& ways = ways_[acks];
    if (ways.size() <= flow) ways.resize(flow + 1, nullptr);
    ways[flow] = RouteBy(interface);
  }
  Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>, Socket::SocketErrno& error) override {
    error = Socket::ERROR_NOTERROR;
    return RouteBy(1);  // a host has one cable
  }
  bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> from,
                  const UnicastForwardCallback& forward, const MulticastForwardCallback&,
                  const LocalDeliverCallback& deliver, const ErrorCallback&) override {
    const uint32_t interface = ipv4_->GetInterfaceForDevice(from);
    if (ipv4_->IsDestinationAddress(header.GetDestination(), interface)) {
      deliver(packet, header, interface);
      return true;
    }
    uint8_t ports[4];
    packet->CopyData(ports, sizeof ports);
    const uint32_t source = ports[0] << 8 | ports[1], destination = ports[2] << 8 | ports[3];
    const bool acks = source == kServicePort;
    forward(ways_[acks].at((acks ? destination : source) - kFirstClientPort), packet, header);
    return true;
  }
  void SetIpv4(Ptr<Ipv4> ipv4) override { ipv4_ = ipv4; }
  void NotifyInterfaceUp(uint32_t) override {}
  void NotifyInterfaceDown(uint32_t) override {}
  void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
  void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
  void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

 private:
  Ptr<Ipv4Route> RouteBy(uint32_t interface) {
    Ptr<Ipv4Route>& route = by_interface_[interface];
    if (!route) {
      route = Create<Ipv4Route>();
      route->SetSource(ipv4_->GetAddress(interface, 0).GetLocal());
      route->SetGateway(Ipv4Address::GetAny());  // the cable's other end: no address has to be resolved
      route->SetOutputDevice(ipv4_->GetNetDevice(interface));
    }
    return route;
  }
  Ptr<Ipv4> ipv4_;
  std::map<uint32_t, Ptr<Ipv4Route>> by_interface_;
  std::vector<Ptr<Ipv4Route>> ways_[2];
};

class FlowRoutingHelper : public Ipv4RoutingHelper {
 public:
  FlowRoutingHelper* Copy() const override { return new FlowRoutingHelper(*this); }
  Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override { return CreateObject<FlowRouting>(); }
};

struct Flow {
  uint32_t src = 0, dst = 0;
  int64_t start_ns = 0;
  uint64_t size_bytes = 0;
  uint64_t received_bytes = 0;
  int64_t finish_ns = -1;
  uint64_t recoveries = 0, timeouts = 0;
  Ptr<Socket> socket;

  void Start() { socket->Send(Create<Packet>(static_cast<uint32_t>(size_bytes))); }
  void StateChanged(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now) {
    recoveries += now == TcpSocketState::CA_RECOVERY;
    timeouts += now == TcpSocketState::CA_LOSS;
  }
  void Receive(Ptr<Socket> from) {
    while (Ptr<Packet> packet = from->Recv()) {
      if (packet->GetSize() == 0) break;
      received_bytes += packet->GetSize();
    }
    if (received_bytes >= size_bytes && finish_ns < 0) finish_ns = Simulator::Now().GetNanoSeconds();
  }
};

std::vector<Flow> flows;

void Accept(Ptr<Socket> socket, const Address& from) {
  Flow& flow = flows.at(InetSocketAddress::ConvertFrom(from).GetPort() - kFirstClientPort);
  socket->SetRecvCallback(MakeCallback(&Flow::Receive, &flow));
}

template <typename T>
T Read(const char* key) {
  std::string word;
  T value;
  if (!(std::cin >> word >> value) || word != key) NS_FATAL_ERROR("expected " << key << ", got " << word);
  return value;
}

}  // namespace

int main() {
  const auto law = Read<std::string>("law");
  const auto sack = Read<int>("sack");
  const auto recovery = Read<std::string>("recovery");
  const auto segment_bytes = Read<uint32_t>("segment_bytes");
  const auto window_bytes = Read<uint32_t>("window_bytes");
  const auto initial_window = Read<uint32_t>("initial_window");
  const auto delayed_ack = Read<uint32_t>("delayed_ack");
  const auto min_rto_s = Read<double>("min_rto_s");
  const auto disc_bytes = Read<uint64_t>("disc_bytes");
  const auto mark_bytes = Read<uint64_t>("mark_bytes");  // 0: drop tail
  const auto host_disc_bytes = Read<uint64_t>("host_disc_bytes");
  const auto host_jitter_ns = Read<int64_t>("host_jitter_ns");
  RngSeedManager::SetSeed(Read<uint32_t>("seed"));
  const auto warmup_ns = Read<int64_t>("warmup_ns");
  const auto end_ns = Read<int64_t>("end_ns");
  const auto stop_when_done = Read<int>("stop_when_done");

  Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + law));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment_bytes));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(initial_window));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delayed_ack));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(3'000'000'000U));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window_bytes));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(min_rto_s)));
  Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sack != 0));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  if (law == "TcpDctcp") Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
  Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
  Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::" + recovery));

  const auto n_nodes = Read<uint32_t>("nodes");
  const auto n_hosts = Read<uint32_t>("hosts");
  const auto n_cables = Read<uint32_t>("cables");
  NodeContainer nodes;
  nodes.Create(n_nodes);
  InternetStackHelper stack;
  stack.SetRoutingHelper(FlowRoutingHelper());
  stack.SetIpv6StackInstall(false);
  stack.Install(nodes);

  TrafficControlHelper host_port, switch_port;
  const auto bytes = [](uint64_t n) { return StringValue(std::to_string(n) + "B"); };
  host_port.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", bytes(host_disc_bytes));
  if (mark_bytes > 0) {
    switch_port.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", bytes(disc_bytes), "MinTh",
                                 DoubleValue(static_cast<double>(mark_bytes)), "MaxTh",
                                 DoubleValue(static_cast<double>(mark_bytes)), "QW", DoubleValue(1.0), "Gentle",
                                 BooleanValue(false), "UseEcn", BooleanValue(true), "UseHardDrop",
                                 BooleanValue(false), "MeanPktSize", UintegerValue(segment_bytes + 40));
  } else {
    switch_port.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", bytes(disc_bytes));
  }

  using Hop = std::pair<uint32_t, uint32_t>;
  std::map<Hop, Ptr<QueueDisc>> discs;
  std::map<Hop, Ptr<PointToPointNetDevice>> devices;
  std::map<Hop, uint32_t> interfaces;
  std::map<Hop, double> rates_bps;
  std::vector<Ipv4Address> addresses(n_nodes);
  Ipv4AddressHelper subnets("10.0.0.0", "255.255.255.252");
  for (uint32_t cable = 0; cable < n_cables; ++cable) {
    uint32_t ends[2];
    double rate_bps, delay_s;
    std::cin >> ends[0] >> ends[1] >> rate_bps >> delay_s;
    Ptr<HostCable> channel = CreateObject<HostCable>();
    channel->SetAttribute("Delay", TimeValue(NanoSeconds(static_cast<int64_t>(delay_s * 1e9 + 0.5))));
    NetDeviceContainer pair;
    for (const uint32_t end : ends) {
      Ptr<PointToPointNetDevice> device = CreateObject<PointToPointNetDevice>();
      device->SetAddress(Mac48Address::Allocate());
      device->SetDataRate(DataRate(static_cast<uint64_t>(rate_bps)));
      Ptr<DropTailQueue<Packet>> queue = CreateObject<DropTailQueue<Packet>>();
      queue->SetMaxSize(QueueSize("1p"));
      device->SetQueue(queue);
      nodes.Get(end)->AddDevice(device);
      Ptr<NetDeviceQueueInterface> queue_interface = CreateObject<NetDeviceQueueInterface>();
      queue_interface->GetTxQueue(0)->ConnectQueueTraces(queue);
      device->AggregateObject(queue_interface);
      device->Attach(channel);
      if (end < n_hosts && host_jitter_ns > 0) channel->AddJitter(device, host_jitter_ns);
      pair.Add(device);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      const Hop hop{ends[i], ends[1 - i]};
      discs[hop] = (ends[i] < n_hosts ? host_port : switch_port).Install(pair.Get(i)).Get(0);
      devices[hop] = DynamicCast<PointToPointNetDevice>(pair.Get(i));
      rates_bps[hop] = rate_bps;
    }
    Ipv4InterfaceContainer assigned = subnets.Assign(pair);
    subnets.NewNetwork();
    for (uint32_t i = 0; i < 2; ++i) {
      const Hop hop{ends[i], ends[1 - i]};
      addresses[ends[i]] = assigned.GetAddress(i);
      interfaces[hop] = assigned.Get(i).second;
    }
  }

  std::vector<QueueMeter*> meters;
  const auto n_observed = Read<uint32_t>("observed");
  for (uint32_t i = 0; i < n_observed; ++i) {
    Hop hop;
    std::cin >> hop.first >> hop.second;
    meters.push_back(new QueueMeter(discs.at(hop), devices.at(hop), rates_bps.at(hop) / 8e9));
  }

  for (uint32_t host = 0; host < n_hosts; ++host) {
    Ptr<Socket> listener = Socket::CreateSocket(nodes.Get(host), TcpSocketFactory::GetTypeId());
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kServicePort));
    listener->Listen();
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Accept));
  }
  flows.resize(Read<uint32_t>("flows"));
  for (uint32_t id = 0; id < flows.size(); ++id) {
    Flow& flow = flows[id];
    std::cin >> flow.start_ns >> flow.size_bytes;
    for (const bool acks : {false, true}) {  // the nodes on the way, both ends included
      uint32_t n_nodes_on_way, at;
      std::cin >> n_nodes_on_way >> at;
      (acks ? flow.dst : flow.src) = at;
      for (uint32_t next; --n_nodes_on_way > 0; at = next) {
        std::cin >> next;
        DynamicCast<FlowRouting>(nodes.Get(at)->GetObject<Ipv4>()->GetRoutingProtocol())
            ->Add(id, acks, interfaces.at({at, next}));
      }
    }
    flow.socket = Socket::CreateSocket(nodes.Get(flow.src), TcpSocketFactory::GetTypeId());
    flow.socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), static_cast<uint16_t>(kFirstClientPort + id)));
    flow.socket->TraceConnectWithoutContext("CongState", MakeCallback(&Flow::StateChanged, &flow));
    const InetSocketAddress destination(addresses[flow.dst], kServicePort);
    Simulator::Schedule(MicroSeconds(100 * id), [&flow, destination] { flow.socket->Connect(destination); });
    Simulator::Schedule(NanoSeconds(kHandshakesNs + flow.start_ns), &Flow::Start, &flow);
  }

  uint64_t delivered_bytes = 0;
  const auto delivered = [] {
    uint64_t sum = 0;
    for (const Flow& flow : flows) sum += flow.received_bytes;
    return sum;
  };
  Simulator::Schedule(NanoSeconds(kHandshakesNs + warmup_ns), [&] {
    delivered_bytes = delivered();
    for (QueueMeter* meter : meters) meter->Begin();
  });
  std::function<void()> watch = [&] {
    for (const Flow& flow : flows) {
      if (flow.finish_ns < 0) {
        Simulator::Schedule(MilliSeconds(1), watch);
        return;
      }
    }
    Simulator::Stop();
  };
  if (stop_when_done) Simulator::Schedule(NanoSeconds(kHandshakesNs), watch);
  Simulator::Stop(NanoSeconds(kHandshakesNs + end_ns));
  const std::clock_t began = std::clock();
  Simulator::Run();
  const double cpu_s = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  const int64_t stopped_ns = Simulator::Now().GetNanoSeconds() - kHandshakesNs;

  double byte_ns = 0, sent_bytes = 0;
  uint64_t arrived = 0, dropped = 0, marked = 0, recoveries = 0, timeouts = 0;
  for (QueueMeter* meter : meters) {
    meter->End();
    byte_ns += meter->total_byte_ns_;
    sent_bytes += meter->total_sent_;
    arrived += meter->arrived_;
    dropped += meter->dropped_;
    marked += meter->marked_;
  }
  for (const Flow& flow : flows) {
    recoveries += flow.recoveries;
    timeouts += flow.timeouts;
  }
  std::cout.precision(17);
  std::cout << "cpu_s " << cpu_s << "\nevents " << Simulator::GetEventCount() << "\nstopped_ns " << stopped_ns
            << "\ndelivered_bytes " << delivered() - delivered_bytes << "\nqueue_byte_ns " << byte_ns
            << "\nsent_bytes " << sent_bytes << "\narrived " << arrived << "\ndropped " << dropped << "\nmarked "
            << marked << "\nrecoveries " << recoveries << "\ntimeouts " << timeouts << "\n";
  for (const Flow& flow : flows) {
    std::cout << "flow " << flow.received_bytes << " " << (flow.finish_ns < 0 ? -1 : flow.finish_ns - kHandshakesNs)
              << "\n";
  }
  return 0;
}
