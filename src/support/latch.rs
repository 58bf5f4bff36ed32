//! An event that happens once, and can be awaited.

use std::sync::Arc;

use tokio::sync::SetOnce;

/// A latch. Cheap to clone; all clones open together, and none closes again.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<SetOnce<()>>);

// === impl Latch ===

impl Latch {
    /// A latch that is open.
    pub fn opened() -> Self {
        let latch = Self::default();
        latch.open();
        latch
    }

    /// Opens it; has no effect on an open one.
    pub fn open(&self) {
        let _ = self.0.set(());
    }

    /// True once it is open.
    pub fn is_open(&self) -> bool {
        self.0.initialized()
    }

    /// Waits until it is open.
    pub async fn wait(&self) {
        self.0.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn all_clones_open_together_and_stay_open() {
        let latch = Latch::default();
        let other = latch.clone();
        let mut waits = Box::pin(other.wait());
        assert!(poll!(&mut waits).is_pending());
        assert!(!latch.is_open());
        latch.open();
        latch.open();
        waits.await;
        assert!(other.is_open() && Latch::opened().is_open());
    }
}
