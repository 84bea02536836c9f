//! The composition root: opens the store, starts the service and the listeners, and stops everything in the right
//! order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_auth::ApiKeys;
use flovyn_engine::Limits;
use flovyn_service::loops::Options as LoopOptions;
use flovyn_service::{Options as ServiceOptions, Service, Tricks};
use flovyn_store::sqlite::Options as SqliteOptions;
use flovyn_store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::TcpIncoming;

use crate::activity;
use crate::api::{Api, Authenticators};
use crate::config::{Auth, Config, ConfigError};
use crate::grpc::greeting;
use crate::hot_path::HotPath;
use crate::http::{self, HttpState};
use crate::issuer::Issuer;
use crate::metrics::Metrics;
use crate::provision::provision;
use crate::slow::Patience;
use crate::tls;
use crate::virtual_clock::VirtualClock;

/// How long requests in flight may take after the server begins to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// A peer that disappeared without closing its connection is noticed after these two times together.
const PING_EVERY: Duration = Duration::from_secs(60);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// The most concurrent calls on one gRPC connection. Many workers may wait for work over one connection.
const MAX_STREAMS: u32 = 10_000;
/// How often recorded durations are moved into their buckets.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// How to run a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    pub config: Config,
    /// Refuses HTTP requests that foreign web pages might send. Used by `flovyn dev`.
    pub local_only: bool,
    /// Product time moves only by `POST /_/clock/advance`. Supported on SQLite only.
    pub virtual_clock: bool,
    /// The credential that visitors of the web pages have without signing in. Used by `flovyn dev`. It takes effect
    /// only together with `local_only`, and only on a loopback address.
    pub ui_credential: Option<String>,
    /// Called whenever a thread is about to sleep, which is often. The function may release memory that the thread
    /// caches.
    pub thread_rests: fn(),
    /// Changes the product's limits. Used by tests.
    pub limits: fn(&mut Limits),
}

impl ServerOptions {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            local_only: false,
            virtual_clock: false,
            ui_credential: None,
            thread_rests: || (),
            limits: |_| (),
        }
    }
}

/// The reason why a server did not start. Messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Provision(String),
    #[error(
        "cannot listen on {address} for {listener}: {error}; stop the program that uses it, or choose another address"
    )]
    Bind { listener: &'static str, address: SocketAddr, error: std::io::Error },
    #[error("cannot start the server's threads: {0}; raise the thread limit of this process")]
    Threads(std::io::Error),
}

/// A running server. To stop it gracefully, call [`Server::stop`]; dropping it does not do that.
#[derive(Debug)]
pub struct Server {
    api: Api,
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    draining: watch::Sender<bool>,
    http_ends: watch::Sender<bool>,
    grpc: JoinHandle<()>,
    http: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    sampling: JoinHandle<()>,
    key_refresh: Option<JoinHandle<()>>,
    fatal: watch::Receiver<Option<String>>,
    hot_path: HotPath,
}

impl Server {
    /// Starts everything. When this returns, both addresses answer.
    ///
    /// # Errors
    /// Fails if the configuration, the database or an address cannot be used. In that case nothing keeps running.
    pub async fn start(options: ServerOptions) -> Result<Self, StartError> {
        let ServerOptions {
            config,
            local_only,
            virtual_clock,
            ui_credential,
            thread_rests,
            limits: change_limits,
        } = options;
        config.check()?;
        let metrics = Arc::new(Metrics::new());
        let authenticators = authenticators(&config.auth, &metrics).await?;
        let metrics_readers = http::Readers::new(&config.metrics)?;
        let tls = config.tls.as_ref().map(tls::load).transpose()?;
        let clock = virtual_clock.then(|| Arc::new(VirtualClock::default()));
        let tricks = tricks()?;
        let store = open_store(&config, clock.clone(), thread_rests, tricks).await?;
        let hot_path = HotPath::start(store.as_ref(), thread_rests).map_err(StartError::Threads)?;
        let binding = hot_path.run(|| tokio::spawn(bind("gRPC", config.grpc.address)));
        let (grpc_listener, grpc_addr) = binding.await.map_err(|end| StartError::Threads(end.into()))??;
        let (http_listener, http_addr) = bind("HTTP", config.http.address).await?;

        store.serves_at(&format!("gRPC {grpc_addr}, HTTP {http_addr}"));

        let (fatal_sender, fatal) = watch::channel(None);
        let mut limits = config.limits.apply();
        change_limits(&mut limits);
        let options = ServiceOptions {
            limits,
            on_fatal: Box::new(move |what| {
                tracing::error!(what, "storage failed permanently");
                fatal_sender.send_replace(Some(what.to_owned()));
            }),
            recorder: metrics.recorder(),
            loops: LoopOptions { audit_kept: config.audit.kept(), ..LoopOptions::default() },
            tricks,
            ..ServiceOptions::default()
        };
        let service = hot_path.run(|| Service::start(store, options));
        if let Err(error) = provision(&service, &config.tenants).await {
            service.stop().await;
            return Err(StartError::Provision(error));
        }

        let (draining, drains) = watch::channel(false);
        let (http_ends, http_stopped) = watch::channel(false);
        let key_refresh = authenticators.issuer.clone().map(|issuer| tokio::spawn(issuer.keep_fresh()));
        let api =
            Api::new(service, authenticators, drains.clone(), metrics.clone(), config.grpc.max_poll_wait());
        let (grpc_tls, http_tls) = tls.map(|tls| (tls.grpc, tls.http)).unzip();
        let grpc = hot_path.run(|| {
            serve_grpc(api.clone(), grpc_listener, grpc_tls, config.requests.patience(), until_true(drains))
        });
        let for_everybody = local_only && http_addr.ip().is_loopback();
        let ui = flovyn_ui::Options {
            own_credential: ui_credential.filter(|_| for_everybody),
            secure: config.tls.is_some(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let state = HttpState {
            api: api.clone(),
            started: Instant::now(),
            metrics: metrics_readers,
            public_docs: config.docs_are_public(),
            clock,
            local_only,
            ui,
            patience: config.requests.patience(),
            cors: config.http.cors.as_ref().map(http::cors_layer),
        };
        let (router, greeting) = (http::router(state), config.requests.patience().greeting());
        let http = tokio::spawn(http::serve::serve(
            http_listener,
            http_tls,
            router,
            greeting,
            until_true(http_stopped),
        ));
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(METRICS_UPKEEP).await;
                metrics.run_upkeep();
            }
        });
        let sampling = tokio::spawn(activity::keep_sampling(api.clone()));
        tracing::info!(%grpc_addr, %http_addr, "serving");
        Ok(Self {
            api,
            grpc_addr,
            http_addr,
            draining,
            http_ends,
            grpc,
            http,
            upkeep,
            sampling,
            key_refresh,
            fatal,
            hot_path,
        })
    }

    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Completes with the reason when storage has failed permanently. The process must exit then.
    pub fn fatal(&self) -> impl Future<Output = String> + Send + 'static {
        let mut fatal = self.fatal.clone();
        async move {
            if let Ok(reason) = fatal.wait_for(Option::is_some).await {
                return reason.clone().unwrap_or_default();
            }
            // The sender is gone: the service has ended without a failure.
            std::future::pending().await
        }
    }

    /// Begins to stop: the server is no longer ready, accepts no new gRPC connections, and ends polls and streams.
    /// HTTP keeps answering, so that load balancers can see this.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Drains, waits for the requests in flight, makes what was accepted durable, and closes the database.
    pub async fn stop(self) {
        self.drain();
        let until = tokio::time::Instant::now() + DRAIN;
        finish("gRPC", self.grpc, until).await;
        self.http_ends.send_replace(true);
        finish("HTTP", self.http, until).await;
        self.upkeep.abort();
        self.sampling.abort();
        self.key_refresh.inspect(JoinHandle::abort);
        self.api.service().stop().await;
        let closes = self.api.service().store().closes();
        drop(self.api);
        if let Some(closes) = closes {
            closed(closes, until).await;
        }
        self.hot_path.end(until.saturating_duration_since(tokio::time::Instant::now())).await;
        tracing::info!("stopped");
    }
}

/// Waits until no request uses the database file any more; mostly these are streams that have just ended. A server
/// started on the file afterwards then finds it closed.
async fn closed(mut closes: watch::Receiver<()>, until: tokio::time::Instant) {
    // The channel carries no values; it only closes.
    if tokio::time::timeout_at(until, closes.changed()).await.is_err() {
        tracing::warn!("the database is still in use by requests that were cut off");
    }
}

/// Creates the configured authenticators. If one does not work, the server does not start, so that nobody is let in
/// because an authenticator is missing.
async fn authenticators(config: &Auth, metrics: &Arc<Metrics>) -> Result<Authenticators, ConfigError> {
    let issuer = match &config.jwt {
        Some(jwt) => Some(Arc::new(Issuer::open(jwt, metrics.clone()).await?)),
        None => None,
    };
    let keys = config.api_keys.iter().map(|key| key.read()).collect::<Result<_, _>>()?;
    let failed_tries_per_minute = config.failed_tries_per_minute;
    Ok(Authenticators { issuer, api_keys: ApiKeys::new(keys), failed_tries_per_minute })
}

/// For measurements: switches off the optimisations that `FLOVYN_TEST_WITHOUT` names.
fn tricks() -> Result<Tricks, ConfigError> {
    let names = std::env::var("FLOVYN_TEST_WITHOUT").unwrap_or_default();
    let unknown = |name| ConfigError::new(format!("FLOVYN_TEST_WITHOUT: there is no optimisation '{name}'"));
    Tricks::without(&names).map_err(unknown)
}

async fn open_store(
    config: &Config,
    clock: Option<Arc<VirtualClock>>,
    thread_rests: fn(),
    tricks: Tricks,
) -> Result<Arc<dyn Store>, StartError> {
    let url = &config.database_url.0;
    let (check, releases_at_rest) = (config.database.file_check(), tricks.release_at_rest);
    let mut options = SqliteOptions { thread_rests, check, releases_at_rest, ..SqliteOptions::default() };
    if let Some(clock) = clock {
        if !url.starts_with("sqlite:") {
            let message =
                "database_url: a virtual clock needs sqlite:PATH, because PostgreSQL uses its own clock";
            return Err(ConfigError::new(message).into());
        }
        options.clock = clock;
    }
    Ok(flovyn_store::open::store_with(url, options).await?)
}

async fn bind(listener: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |error| StartError::Bind { listener, address, error };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?;
    Ok((socket, local))
}

fn serve_grpc(
    api: Api,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    patience: Patience,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let count = axum::middleware::from_fn_with_state(api.clone(), crate::grpc::request_metrics::count);
    let know_peer = axum::middleware::from_fn(crate::peer::know);
    let in_time = axum::middleware::from_fn_with_state(patience, crate::grpc::slow::check);
    let counted = crate::grpc::routes(api).into_axum_router().layer(in_time).layer(count).layer(know_peer);
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PONG_WITHIN))
        .max_concurrent_streams(MAX_STREAMS)
        .add_routes(counted.into());
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let incoming = greeting::incoming(incoming, tls, patience.greeting());
    tokio::spawn(async move {
        if let Err(error) = router.serve_with_incoming_shutdown(incoming, stop).await {
            tracing::error!(%error, "the gRPC listener failed");
        }
    })
}

async fn until_true(mut signal: watch::Receiver<bool>) {
    // An error means that the server is gone. Then it is time to end, too.
    let _ = signal.wait_for(|stopped| *stopped).await;
}

async fn finish(listener: &'static str, mut task: JoinHandle<()>, until: tokio::time::Instant) {
    if timeout_at(until, &mut task).await.is_err() {
        tracing::warn!(listener, "some requests in flight were cut off");
        task.abort();
    }
}
