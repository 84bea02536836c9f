//! `https://`

use flovyn_server::config::{Config, Jwt, TenantConfig, Tls};
use flovyn_server::{Server, ServerOptions};
use rcgen::CertifiedKey;
use tempfile::tempdir;
use tokio::runtime::Runtime;

use crate::world::{Ran, flovyn};

#[test]
fn a_certificate_is_checked() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["server", "stranger"] {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(path(&format!("{name}.pem")), cert.pem()).unwrap();
        std::fs::write(path(&format!("{name}.key")), signing_key.serialize_pem()).unwrap();
    }
    std::fs::write(path("secret"), "0123456789abcdef0123456789abcdef").unwrap();
    let jwt = Jwt::with_secret_file(path("secret"), "tests", "flovyn");
    let token = jwt.verifier().unwrap().sign("ada", &["default"], "viewer", 1, 4_000_000_000).unwrap();
    let mut config = Config::local(format!("sqlite:{}", path("flovyn.db").display()));
    config.tls = Some(Tls { cert: path("server.pem"), key: path("server.key") });
    config.auth.jwt = Some(jwt);
    let (slug, worker_tokens) = ("default".to_owned(), Vec::new());
    config.tenants = vec![TenantConfig { id: None, slug, name: None, retention_ms: None, worker_tokens }];
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start(ServerOptions::new(config))).unwrap();

    let url = format!("https://localhost:{}", server.http_addr().port());
    let list = |trusted: &str| {
        let mut command = flovyn(folder.path(), &["workflow", "list", "-o", "json", "--url", &url]);
        command.env("FLOVYN_TOKEN", &token).env("SSL_CERT_FILE", path(trusted)).env_remove("SSL_CERT_DIR");
        Ran::of(command.output().unwrap())
    };
    let ran = list("server.pem");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "[]\n", ""));
    let ran = list("stranger.pem");
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("certificate") && ran.err.contains("SSL_CERT_FILE"), "{}", ran.err);
    runtime.block_on(server.stop());
}
