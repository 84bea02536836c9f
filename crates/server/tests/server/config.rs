//! What a configuration may say, and how it is refused.

use flovyn_server::Config;
use flovyn_server::config::{KEYS, MetricsAccess};

const FULL: &str = r#"
database_url = "postgres://flovyn:secret@db/flovyn"
[grpc]
address = "0.0.0.0:9090"
[http]
address = "[::]:8080"
[tls]
cert = "/etc/flovyn/cert.pem"
key = "/etc/flovyn/key.pem"
[http.cors]
allowed_origins = ["https://app.example", "http://localhost:5173"]
allow_credentials = true
[[auth.api_keys]]
name = "ci"
sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
tenants = ["acme"]
role = "operator"
expires_at = "2030-01-31T00:00:00Z"
[auth.jwt]
public_key_file = "/etc/flovyn/jwt.pem"
algorithm = "ES256"
issuer = "https://id.example"
audience = "flovyn"
tenants_claim = "orgs"
role_claim = "flovyn_role"
[metrics]
access = "loopback"
token = "scrape-0123456789abcdef0123456789abcdef"
[telemetry]
otlp_endpoint = "http://127.0.0.1:4317"
log_format = "json"
log_filter = "info,flovyn_service=debug"
[limits]
session_lease_ms = 20000
workflow_lease_ms = 20000
task_lease_ms = 20000
worker_silence_ms = 20000
cancel_grace_ms = 20000
[[tenants]]
id = "0195c1a0-0000-7000-8000-000000000001"
slug = "acme"
name = "Acme"
retention_ms = 86400000
worker_tokens = [{ name = "ci", token = "0123456789abcdef0123456789abcdef" }]
"#;

fn parse(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::parse(text, variables).map_err(|error| error.to_string())
}

#[test]
fn every_key_can_be_set() {
    let config = parse(FULL, &[]).unwrap();
    assert_eq!(config.grpc.address.port(), 9090);
    assert_eq!(config.limits.apply().session_lease_ms, 20_000);
    assert_eq!(config.tenants[0].id.unwrap().to_string(), "0195c1a0-0000-7000-8000-000000000001");
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("secret@") && !shown.contains("scrape-") && !shown.contains("0123456789abcdef"),
        "{shown}"
    );
}

#[test]
fn defaults_are_those_of_the_guide() {
    let config = parse("database_url = 'sqlite:a.db'", &[]).unwrap();
    assert_eq!(config.grpc.address.to_string(), "127.0.0.1:9090");
    assert_eq!(config.http.address.to_string(), "127.0.0.1:8080");
    assert_eq!(config.grpc.max_poll_wait_ms, 300_000);
    assert_eq!(config.metrics.access, MetricsAccess::Token);
}

#[test]
fn variables_go_over_the_file() {
    let variables = [
        ("FLOVYN_GRPC_ADDRESS", "127.0.0.1:1234"),
        ("FLOVYN_GRPC_MAX_POLL_WAIT_MS", "2000"),
        ("FLOVYN_METRICS_ACCESS", "off"),
        ("FLOVYN_LIMITS_TASK_LEASE_MS", "5000"),
        ("FLOVYN_AUTH_JWT_SECRET_FILE", "s"),
        ("FLOVYN_AUTH_JWT_ISSUER", "i"),
        ("FLOVYN_AUTH_JWT_AUDIENCE", "a"),
        // Not keys of the server.
        ("FLOVYN_URL", "x"),
        ("FLOVYN_TOKEN", "x"),
        ("FLOVYN_TENANT", "x"),
        ("FLOVYN_PROFILE", "x"),
        ("FLOVYN_CONFIG", "x"),
        ("FLOVYN_TEST_POSTGRES", "x"),
        ("PATH", "x"),
    ];
    let config = parse("database_url = 'sqlite:a.db'\ngrpc.address = '127.0.0.1:1'", &variables).unwrap();
    assert_eq!((config.grpc.address.port(), config.grpc.max_poll_wait_ms), (1234, 2_000));
    assert!(config.metrics.access == MetricsAccess::Off && config.auth.jwt.is_some());
    assert_eq!(config.limits.task_lease_ms, Some(5_000));
    assert!(parse("", &[("FLOVYN_DATABASE_URL", "sqlite:a.db")]).is_ok());
}

/// Clients of the public protocol come with tokens of this length.
#[test]
fn a_worker_token_has_31_characters_or_more() {
    let with = |length: usize| {
        let token = "t".repeat(length);
        parse(
            &format!(
                "database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\nworker_tokens = [{{ name = 'n', token = '{token}' }}]"
            ),
            &[],
        )
    };
    assert!(with(31).is_ok());
    assert!(with(30).unwrap_err().to_string().contains("at least 31"));
}

/// The text of a file, variables, and what the message must name.
type Wrong<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn what_is_wrong_is_named() {
    let database = "database_url = 'sqlite:a.db'\n";
    let token = "[[tenants]]\nslug = 'a'\nworker_tokens = [{ name = 'n', token = '0123456789abcdef0123456789abcdef' }]";
    let cases: &[Wrong] = &[
        ("", &[], &["database_url", "FLOVYN_DATABASE_URL"]),
        ("database_url = 'mysql://me:secret@h/d'", &[], &["database_url", "sqlite:PATH"]),
        ("database_url = 'sqlite:'", &[], &["database_url"]),
        ("database_url = ", &[], &["line 1"]),
        ("database_url = 'sqlite:a.db'\ncolour = 1", &[], &["unknown field", "colour"]),
        ("database_url = 'sqlite:a.db'\n[grpc]\nadress = 'x'", &[], &["adress", "grpc"]),
        ("database_url = 'sqlite:a.db'\n[grpc]\naddress = 'x'", &[], &["grpc.address"]),
        (
            "database_url = 'sqlite:a.db'\ngrpc.max_poll_wait_ms = 0",
            &[],
            &["grpc.max_poll_wait_ms", "300000"],
        ),
        ("database_url = 'sqlite:a.db'\ngrpc.max_poll_wait_ms = 300001", &[], &["grpc.max_poll_wait_ms"]),
        (database, &[("FLOVYN_GRPC_ADRESS", "x")], &["FLOVYN_GRPC_ADRESS", "unset"]),
        (database, &[("FLOVYN_DOCS_PUBLIC", "yes")], &["FLOVYN_DOCS_PUBLIC", "true or false"]),
        (
            database,
            &[("FLOVYN_METRICS_PUBLIC", "true")],
            &["FLOVYN_METRICS_PUBLIC", "no longer", "metrics.access", "metrics.token_file"],
        ),
        (
            "database_url = 'sqlite:a.db'\nmetrics.public = true",
            &[],
            &["metrics.public", "no longer", "metrics.access", "metrics.token_file"],
        ),
        (database, &[("FLOVYN_METRICS_ACCESS", "public")], &["metrics.access", "public", "loopback"]),
        (database, &[("FLOVYN_METRICS_TOKEN", "short")], &["metrics.token", "32 to 512"]),
        (
            "database_url = 'sqlite:a.db'\n[metrics]\ntoken_file = 'f'\ntoken = '0123456789abcdef0123456789abcdef'",
            &[],
            &["metrics.token", "only one"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[metrics]\naccess = 'off'\ntoken_file = 'f'",
            &[],
            &["metrics.access", "remove one"],
        ),
        (
            database,
            &[("FLOVYN_LIMITS_TASK_LEASE_MS", "1m")],
            &["FLOVYN_LIMITS_TASK_LEASE_MS", "whole number"],
        ),
        (database, &[("FLOVYN_LIMITS_TASK_LEASE_MS", "0")], &["limits.task_lease_ms", "choose"]),
        (database, &[("FLOVYN_GRPC_ADDRESS", "0.0.0.0:1")], &["grpc.address", "[auth.jwt]", "worker token"]),
        (database, &[("FLOVYN_HTTP_ADDRESS", "[::]:1")], &["http.address", "authentication"]),
        (
            "database_url = 'sqlite:a.db'\n[auth.jwt]\nsecret_file = 's'\npublic_key_file = 'p'\nissuer = 'i'\naudience = 'a'",
            &[],
            &["auth.jwt.secret_file", "only one"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[auth.jwt]\npublic_key_file = 'p'\nissuer = 'i'\naudience = 'a'",
            &[],
            &["auth.jwt.algorithm", "RS256"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[auth.jwt]\nissuer = 'i'\naudience = 'a'",
            &[],
            &["auth.jwt.secret_file"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\nworker_tokens = [{ name = 'n', token = 'short' }]",
            &[],
            &["tenants", "'n'", "at least 31"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\nworker_tokens = [{ name = 'n', token = '0123456789abcdef.0123456789abcdef.' }]",
            &[],
            &["tenants", "'n'", "dots"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\nworker_tokens = [{ name = 'n', token = '0123456789abcdef 0123456789abcdef' }]",
            &[],
            &["tenants", "'n'", "spaces"],
        ),
        (
            "database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\n[[tenants]]\nslug = 'a'",
            &[],
            &["'a'", "twice"],
        ),
        ("database_url = 'sqlite:a.db'\n[[tenants]]\nslug = 'a'\nid = 'x'", &[], &["'x'", "UUID"]),
    ];
    let keys: Vec<_> =
        bad_keys().into_iter().map(|(text, parts)| (database.to_owned() + &text, parts)).collect();
    let keys = keys.iter().map(|(text, parts)| (text.as_str(), &[][..], *parts));
    for (text, variables, parts) in cases.iter().copied().chain(keys) {
        let error = parse(text, variables).map(|_| ()).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "'{part}' is not in: {error}");
        }
        assert!(!error.contains("secret@") && !error.contains('\n'), "{error}");
    }
    let open = format!("database_url = 'sqlite:a.db'\ngrpc.address = '0.0.0.0:1'\n{token}");
    assert!(parse(&open, &[]).is_ok(), "with a worker token others may reach it");
}

/// Key sets, API keys and origins that cannot be used.
fn bad_keys() -> Vec<(String, &'static [&'static str])> {
    let jwt = |lines: &str| format!("[auth.jwt]\nissuer = 'i'\naudience = 'a'\n{lines}");
    let url = |url: &str| jwt(&format!("algorithm = 'EdDSA'\njwks_url = '{url}'"));
    let key = |change: (&str, &str)| {
        let entry = "[[auth.api_keys]]\nname = 'n'\nrole = 'admin'\ntenants = ['a']\nsha256 = '{}'\n";
        let entry = entry.replace("{}", &"0".repeat(64));
        assert!(entry.contains(change.0));
        entry.replace(change.0, change.1)
    };
    let same = key(("", ""));
    let cors = |lines: &str| format!("[http.cors]\n{lines}");
    vec![
        (jwt("jwks_file = 'k'"), &["auth.jwt.algorithm", "EdDSA"]),
        (jwt("jwks_file = 'k'\nalgorithm = 'HS256'"), &["auth.jwt.algorithm", "EdDSA"]),
        (jwt("jwks_file = 'k'\nalgorithm = 'none'"), &["none"]),
        (jwt("jwks_file = 'k'\njwks_url = 'https://a/'\nalgorithm = 'RS256'"), &["only one"]),
        (jwt("jwks_file = 'k'\njwks_ca_file = 'c'\nalgorithm = 'RS256'"), &["jwks_ca_file", "jwks_url"]),
        (jwt("jwks_file = 'k'\njwks_refresh_seconds = 0\nalgorithm = 'RS256'"), &["jwks_refresh_seconds", "choose"]),
        (jwt("secret_file = 's'\nalgorithm = 'EdDSA'"), &["auth.jwt.algorithm", "HS256"]),
        (url("http://id.example/keys"), &["auth.jwt.jwks_url", "this machine only", "https://"]),
        (url("http://127.0.0.1.example/keys"), &["this machine only"]),
        (url("ftp://id.example/keys"), &["https://"]),
        (url("/keys"), &["names no host"]),
        (url("https://me:pass@id.example/keys"), &["no user and password"]),
        (url("not a url"), &["not a URL"]),
        (key(("'n'", "''")), &["auth.api_keys", "name"]),
        (key(("0000", "000x")), &["auth.api_keys", "'n'", "64 hexadecimal", "flovyn api-key generate"]),
        (key(("0000", "000")), &["64 hexadecimal"]),
        (key(("'admin'", "'king'")), &["'n'", "server-admin"]),
        (key(("tenants", "expires_at = 'soon'\ntenants")), &["'n'", "expires_at", "2030-01-31T00:00:00Z"]),
        (
            key(("tenants", "expires_at = '2030-01-31T00:00:00+25:00'\ntenants")),
            &["expires_at", "offset beyond 23:59"],
        ),
        (key(("tenants", "key = 'flv_1'\ntenants")), &["unknown field", "key"]),
        (format!("{same}{same}"), &["auth.api_keys", "same name"]),
        (format!("{same}{}", key(("'n'", "'m'"))), &["'n'", "'m'", "same key"]),
        (cors("allowed_origins = []"), &["http.cors.allowed_origins", "at least one"]),
        (cors("allowed_origins = ['*']\nallow_credentials = true"), &["any page", "name the origins"]),
        (cors("allowed_origins = ['*', 'https://a.example']"), &["remove the others"]),
        (cors("allowed_origins = ['a.example']"), &["'a.example'", "https://HOST"]),
        (cors("allowed_origins = ['https://a.example/']"), &["not an origin"]),
        (cors("allowed_origins = ['https://A.example']"), &["not an origin"]),
        (cors("allowed_origins = ['null']"), &["not an origin"]),
        (
            "[[tenants]]\nslug = 'a'\nworker_tokens = [{ name = 'n', token = 'flv_0123456789abcdef0123456789abcdef' }]"
                .to_owned(),
            &["tenants", "'n'", "flv_", "API keys"],
        ),
    ]
}

#[test]
fn api_keys_are_authentication() {
    let open = "database_url = 'sqlite:a.db'\ngrpc.address = '0.0.0.0:1'\n[[auth.api_keys]]\nname = 'n'\nrole = 'admin'\n\
                tenants = ['a']\nsha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'";
    assert!(parse(open, &[]).is_ok());
}

#[test]
fn the_guide_knows_every_key() {
    let guide = include_str!("../../../../docs/guide/install.md");
    for (key, _) in KEYS {
        let variable = format!("FLOVYN_{}", key.replace('.', "_").to_uppercase());
        assert!(guide.contains(&format!("`{key}`")) && guide.contains(&format!("`{variable}`")), "{key}");
    }
}
