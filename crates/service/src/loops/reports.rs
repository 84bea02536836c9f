//! Writes collected progress reports and log lines.

use std::time::Duration;

use crate::loops::{Stopped, pause};
use crate::service::Service;

pub(super) async fn run(service: Service, every: Duration, mut stopped: Stopped) {
    while pause(&service, &mut stopped, every).await {
        service.chatter().flush(&service);
    }
}
