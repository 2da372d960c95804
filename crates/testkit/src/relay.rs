//! UDP relay that delays and drops packets.
//!
//! It runs within the test, so it needs no privileges. Drops depend on the packet number: the fifth
//! packet of a path is dropped in every run or in none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Quality of a path, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    /// Delay of every packet.
    pub delay: Duration,
    /// Share of packets that are dropped, from 0 to 1.
    pub loss: f64,
}

/// Running relay, stopped when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    path: Arc<Path>,
    _tasks: JoinSet<()>,
}

/// Quality and counters of a path.
#[derive(Debug)]
struct Path {
    quality: Mutex<Quality>,
    passed: AtomicU64,
    lost: AtomicU64,
}

impl Path {
    fn quality(&self) -> Quality {
        *self.quality.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Starts a relay to a server.
    pub async fn start(server: SocketAddr, quality: Quality) -> Self {
        let front = Arc::new(socket().await);
        let address = front.local_addr().expect("a bound socket has an address");
        let (quality, passed, lost) = (Mutex::new(quality), AtomicU64::new(0), AtomicU64::new(0));
        let path = Arc::new(Path { quality, passed, lost });
        let mut tasks = JoinSet::new();
        tasks.spawn(relay(front, server, path.clone()));
        Self { address, path, _tasks: tasks }
    }

    /// Changes the quality of the path.
    pub fn set(&self, quality: Quality) {
        *self.path.quality.lock().unwrap_or_else(PoisonError::into_inner) = quality;
    }

    /// Address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of packets relayed, in both directions.
    pub fn passed(&self) -> u64 {
        self.path.passed.load(Ordering::Relaxed)
    }

    /// Number of packets dropped, in both directions.
    pub fn lost(&self) -> u64 {
        self.path.lost.load(Ordering::Relaxed)
    }
}

async fn relay(front: Arc<UdpSocket>, server: SocketAddr, path: Arc<Path>) {
    // Each client has a socket of its own, so that replies find their way back.
    let mut clients = HashMap::new();
    let mut answers = JoinSet::new();
    let mut packet = vec![0; MAX_PACKET_BYTES];
    while let Ok((length, client)) = front.recv_from(&mut packet).await {
        let lane = match clients.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let back = Arc::new(socket().await);
                let lane = Lane::new(front.clone(), client, BACK, path.clone());
                answers.spawn(answer(back.clone(), lane));
                new.insert(Lane::new(back, server, THERE, path.clone()))
            }
        };
        lane.take(&packet[..length]);
    }
}

async fn answer(back: Arc<UdpSocket>, mut lane: Lane) {
    let mut packet = vec![0; MAX_PACKET_BYTES];
    while let Ok(length) = back.recv(&mut packet).await {
        lane.take(&packet[..length]);
    }
}

/// One direction of a client's path.
struct Lane {
    chance: Rng,
    path: Arc<Path>,
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
    _task: JoinSet<()>,
}

impl Lane {
    fn new(from: Arc<UdpSocket>, to: SocketAddr, seed: u64, path: Arc<Path>) -> Self {
        let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(MAX_QUEUE_LENGTH);
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some((due, packet)) = queued.recv().await {
                sleep_until(due).await;
                // A closed socket drops the packet.
                let _ = from.send_to(&packet, to).await;
            }
        });
        Self { chance: Rng::with_seed(seed), path, queue, _task: task }
    }

    fn take(&mut self, packet: &[u8]) {
        let Quality { delay, loss } = self.path.quality();
        let is_lost = self.chance.f64() < loss;
        let due = Instant::now() + delay;
        // A full queue drops packets, like that of a router.
        let is_sent = !is_lost && self.queue.try_send((due, packet.to_vec())).is_ok();
        let count = if is_sent { &self.path.passed } else { &self.path.lost };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a free port")
}

/// Seeds of the two directions.
const THERE: u64 = 1;
const BACK: u64 = 2;

const MAX_PACKET_BYTES: usize = 65_535;
const MAX_QUEUE_LENGTH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets arrive in order, and every run drops the same ones.
    #[tokio::test]
    async fn packets_are_relayed_in_order_or_lost() {
        let server = socket().await;
        let quality = Quality { delay: Duration::from_millis(1), loss: 0.3 };
        let relay = Relay::start(server.local_addr().unwrap(), quality).await;
        let client = socket().await;
        client.connect(relay.address()).await.unwrap();
        // Few enough for no queue and no socket to be full.
        for number in 0..200_u8 {
            client.send(&[number]).await.unwrap();
        }
        let arriving = |sent: &[u8], seed| {
            let mut chance = Rng::with_seed(seed);
            let arrives = |_: &&u8| chance.f64() >= quality.loss;
            sent.iter().filter(arrives).copied().collect::<Vec<_>>()
        };
        let there = arriving(&(0..200).collect::<Vec<_>>(), THERE);
        let back = arriving(&there, BACK);
        let mut packet = [0];
        for number in there {
            let (_, from) = server.recv_from(&mut packet).await.unwrap();
            assert_eq!(packet, [number]);
            server.send_to(&packet, from).await.unwrap();
        }
        for &number in &back {
            client.recv(&mut packet).await.unwrap();
            assert_eq!(packet, [number]);
        }
        assert!((60..140).contains(&back.len()), "{} of 200 came back", back.len());
    }
}
