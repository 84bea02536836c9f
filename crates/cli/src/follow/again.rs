//! Reconnects after a connection broke: soon at first, then with longer pauses, and at most ten times.

use std::time::Duration;

use crate::client::{Client, ClientError, EventStream};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// About half a minute in total.
const TIMES: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Again {
    failures: u32,
}

impl Again {
    /// Follows the stream again, after the last event received. `error`: why the connection ended, or `None` if the
    /// server closed it.
    pub(super) async fn follow(
        &mut self,
        client: &Client,
        path: &[&str],
        last: Option<i64>,
        mut error: Option<ClientError>,
    ) -> Result<EventStream, ClientError> {
        loop {
            if let Some(error) = error.filter(|error| self.failures >= TIMES || !is_passing(error)) {
                return Err(error);
            }
            tokio::time::sleep(self.pause()).await;
            self.failures += 1;
            match client.follow(path, last).await {
                Ok(stream) => return Ok(stream),
                Err(again) => error = Some(again),
            }
        }
    }

    fn pause(&self) -> Duration {
        FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST)
    }
}

/// Whether a retry may help.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Broken(_) => true,
        ClientError::Refused { status, .. } | ClientError::Foreign { status, .. } => {
            matches!(status, 429 | 502..=504)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_becomes_slower_and_never_overflows() {
        let pause = |failures| Again { failures }.pause();
        assert_eq!(pause(0), FIRST);
        assert_eq!(pause(1), FIRST * 2);
        assert_eq!([pause(9), pause(40), pause(u32::MAX)], [LONGEST; 3]);
    }

    #[test]
    fn what_does_not_pass_is_told_at_once() {
        let refused = |status| ClientError::refused("", status, br#"{"error":"","message":"","code":"x"}"#);
        assert!(is_passing(&refused(503)) && is_passing(&ClientError::Broken(String::new())));
        assert!(!is_passing(&refused(401)) && !is_passing(&refused(404)));
    }
}
