//! Starts over REST compared with the same starts over gRPC, alternating, on one server. The difference is the cost of
//! the protocol.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::dev_server::{DevServer, KIND, start};
use crate::figures::{Line, cpu_seconds_of};

/// Concurrent callers. Each REST caller has its own connection; gRPC callers share `CHANNELS` connections.
const CALLERS: usize = 64;
const CHANNELS: usize = 4;
/// Rounds that are not measured.
const WARM_UP: usize = 1;

#[derive(Default)]
struct Sum {
    starts: usize,
    elapsed: Duration,
    server_cpu_seconds: f64,
}

impl Sum {
    fn rate(&self) -> f64 {
        self.starts as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_us(&self) -> f64 {
        self.server_cpu_seconds * 1e6 / self.starts as f64
    }
}

pub(crate) async fn run(binary: Option<PathBuf>, rounds: usize, seconds: u64) -> Result<String, String> {
    let bar = ProgressBar::new_spinner().with_message("starting");
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut server = DevServer::start(binary).await?;
    let process = server.process_id()?;
    let round = Duration::from_secs(seconds);
    let (mut rest, mut grpc) = (Sum::default(), Sum::default());
    for number in 0..rounds + WARM_UP {
        for (name, sum) in [("REST", &mut rest), ("gRPC", &mut grpc)] {
            bar.set_message(format!("round {number}: {name}"));
            let (cpu, begin) = (cpu_seconds_of(process), Instant::now());
            let starts = match name {
                "REST" => over_rest(&server, begin + round).await?,
                _ => over_grpc(&server, begin + round).await?,
            };
            if number >= WARM_UP {
                sum.starts += starts;
                sum.elapsed += begin.elapsed();
                sum.server_cpu_seconds += cpu_seconds_of(process) - cpu;
            }
        }
    }
    bar.finish_and_clear();
    server.process.kill().await.map_err(|error| error.to_string())?;
    Ok(Line::new("trigger")
        .number("callers", CALLERS as f64)
        .number("rest_starts_per_s", rest.rate())
        .number("grpc_starts_per_s", grpc.rate())
        .number("rest_of_grpc", rest.rate() / grpc.rate())
        .number("rest_server_cpu_us_per_start", rest.cpu_us())
        .number("grpc_server_cpu_us_per_start", grpc.cpu_us())
        .finish())
}

async fn sum(mut callers: JoinSet<Result<usize, String>>) -> Result<usize, String> {
    let mut total = 0;
    while let Some(caller) = callers.join_next().await {
        total += caller.map_err(|error| error.to_string())??;
    }
    Ok(total)
}

async fn over_grpc(server: &DevServer, until: Instant) -> Result<usize, String> {
    let mut callers = JoinSet::new();
    let clients: Vec<_> = (0..CHANNELS).map(|_| server.client()).collect::<Result<_, _>>()?;
    for number in 0..CALLERS {
        let mut client = clients[number % CHANNELS].clone();
        let metadata = server.signed(()).metadata().clone();
        callers.spawn(async move {
            let mut count = 0;
            while Instant::now() < until {
                let mut request = tonic::Request::new(start());
                *request.metadata_mut() = metadata.clone();
                client.start_workflow(request).await.map_err(|status| status.to_string())?;
                count += 1;
            }
            Ok(count)
        });
    }
    sum(callers).await
}

async fn over_rest(server: &DevServer, until: Instant) -> Result<usize, String> {
    let credentials = &server.credentials;
    let address = credentials.http_url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let body = r#"{"input":{}}"#;
    let request: Arc<str> = format!(
        "POST /api/tenants/{}/workflows/{KIND}/trigger HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        credentials.tenant,
        credentials.api_token,
        body.len()
    )
    .into();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (address, request) = (address.clone(), request.clone());
        callers.spawn(async move {
            let mut connection = Connection::open(&address).await.map_err(|error| error.to_string())?;
            let mut count = 0;
            while Instant::now() < until {
                let status = connection.send(&request).await.map_err(|error| error.to_string())?;
                if status != "201" {
                    return Err(format!("a start returned status {status} instead of 201"));
                }
                count += 1;
            }
            Ok(count)
        });
    }
    sum(callers).await
}

/// A minimal HTTP/1.1 client with a persistent connection, so that the server is measured and not the client.
struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), line: String::new(), body: Vec::new() })
    }

    /// Sends a request, reads its whole answer, and returns the status.
    async fn send(&mut self, request: &str) -> std::io::Result<String> {
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let (mut status, mut length) = (String::new(), 0);
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).await?;
            let line = self.line.trim_end();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap_or(0);
                }
                None => line.split(' ').nth(1).unwrap_or_default().clone_into(&mut status),
                Some(_) => {}
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body).await?;
        Ok(status)
    }
}
