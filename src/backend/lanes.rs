//! Whose turn it is on channels that several client sessions share. A question that comes on such a channel says of no
//! call that it belongs to it, so one client session at a time makes calls in which it can be asked (design rule 4);
//! others take another lane, which is another session at the server.

use std::{collections::HashMap, sync::Arc};

use std::time::Duration;

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{key::Key, wants::Holder};

/// How long a server may go on with a call that was given up: until then what it asks or tells may be of that call, and is
/// nobody else's.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// The lanes of one backend, by sharer.
#[derive(Debug)]
pub(crate) struct Lanes {
    taken: Mutex<HashMap<Key, Vec<Lane>>>,
    freed: Notify,
    /// How many each sharer has, at most.
    most: usize,
}

/// Who runs calls in a lane, and how many; who did last where there are none.
#[derive(Debug)]
struct Lane {
    holder: Holder,
    calls: usize,
    /// Until when a call that was given up may still be heard of.
    lingers: Option<Instant>,
}

/// The right to make a call in a lane.
#[derive(Debug)]
pub(crate) struct Turn {
    lanes: Arc<Lanes>,
    key: Key,
    /// Whether the server has answered.
    answered: bool,
}

impl Lanes {
    /// No lanes yet, and at most `most` for each sharer.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), freed: Notify::new(), most: most.max(1) })
    }

    /// Waits for a lane in which `holder` alone makes calls: its own, else a free one, else a new one; none but `at`, where
    /// that is given.
    pub(crate) async fn turn(self: &Arc<Self>, key: &Key, holder: &Holder, at: Option<usize>) -> Turn {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // from here on no lane is freed unnoticed
            freed.as_mut().enable();
            let waits = match self.take(key, holder, at) {
                Ok(lane) => return Turn { lanes: Arc::clone(self), key: key.in_lane(lane), answered: false },
                Err(next) => next,
            };
            tokio::select! {
                () = freed => {}
                () = sleep_until(waits.unwrap_or_else(Instant::now)), if waits.is_some() => {}
            }
        }
    }

    /// Takes a lane; where there is none, when the next one is free at the latest, as far as is known.
    fn take(&self, key: &Key, holder: &Holder, at: Option<usize>) -> Result<usize, Option<Instant>> {
        let now = Instant::now();
        let mut taken = self.taken.lock();
        let lanes = taken.entry(key.sharer()).or_default();
        let new = || Lane { holder: holder.clone(), calls: 0, lingers: None };
        if let Some(at) = at.filter(|at| *at >= lanes.len() && *at < self.most) {
            lanes.resize_with(at + 1, new);
        }
        let fits = |number: usize| at.is_none_or(|at| at == number);
        let own = lanes.iter().enumerate().position(|(number, lane)| fits(number) && lane.holder == *holder);
        let is_free = |lane: &Lane| lane.calls == 0 && lane.lingers.is_none_or(|until| until <= now);
        let free = || lanes.iter().enumerate().position(|(number, lane)| fits(number) && is_free(lane));
        let lane = own.or_else(free).or_else(|| {
            (at.is_none() && lanes.len() < self.most).then(|| {
                lanes.push(new());
                lanes.len() - 1
            })
        });
        let Some((lane, taken)) = lane.and_then(|lane| Some((lane, lanes.get_mut(lane)?))) else {
            let idle = lanes.iter().enumerate().filter(|(number, lane)| fits(*number) && lane.calls == 0);
            return Err(idle.filter_map(|(_, lane)| lane.lingers).min());
        };
        taken.holder.clone_from(holder);
        taken.calls += 1;
        Ok(lane)
    }
}

impl Turn {
    /// Ends the turn: the server has answered, and nothing of this call follows.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }

    /// The session that the call is made in.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = self.lanes.taken.lock();
        let lanes = taken.get_mut(&self.key.sharer());
        if let Some(lane) = lanes.and_then(|lanes| lanes.get_mut(self.key.lane())) {
            lane.calls -= 1;
            if !self.answered {
                lane.lingers = Some(Instant::now() + LINGER);
            }
        }
        let now = Instant::now();
        let in_use = |lane: &Lane| lane.calls > 0 || lane.lingers.is_some_and(|until| until > now);
        taken.retain(|_, lanes| lanes.iter().any(in_use));
        drop(taken);
        self.lanes.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::SessionId;

    fn session(name: &str) -> SessionId {
        SessionId::new(name)
    }

    #[tokio::test]
    async fn each_client_has_a_lane_of_its_own_and_waits_where_there_is_none() {
        let (lanes, key) = (Lanes::new(2), Key::base());
        let turn = |name: &'static str| {
            let (lanes, key) = (Arc::clone(&lanes), key.clone());
            async move { lanes.turn(&key, &Some(session(name)), None).await }
        };
        let (one, again, two) = (turn("a").await, turn("a").await, turn("b").await);
        assert_eq!([one.key().lane(), again.key().lane(), two.key().lane()], [0, 0, 1]);
        let mut three = Box::pin(turn("c"));
        assert!(three.as_mut().now_or_never().is_none());
        one.answered();
        assert!(three.as_mut().now_or_never().is_none(), "the other call of that client still runs");
        two.answered();
        assert_eq!(three.await.key().lane(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_whose_call_was_given_up_is_left_alone_for_a_while() {
        let (lanes, key) = (Lanes::new(1), Key::base());
        drop(lanes.turn(&key, &Some(session("a")), None).await);
        drop(lanes.turn(&key, &Some(session("a")), None).await);
        let start = Instant::now();
        lanes.turn(&key, &Some(session("b")), None).await;
        assert_eq!(start.elapsed(), LINGER);
    }
}
