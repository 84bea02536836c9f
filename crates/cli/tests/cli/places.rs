//! Which server, tenant and token a command uses.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::tempdir;

use crate::world::{Ran, World, flovyn};

fn write_profiles(home: &Path, text: &str, mode: u32) {
    let folder = home.join(".config/flovyn");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A folder other than that of the server.
fn list(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let arguments = [&["workflow", "list", "-o", "json"], arguments].concat();
    Ran::of(flovyn(folder, &arguments).envs(variables.iter().copied()).output().unwrap())
}

fn listed(ran: &Ran) {
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "[]\n", ""));
}

#[test]
fn options_variables_profiles_and_the_data_directory_all_name_a_server() {
    let (world, home) = (World::new(), tempdir().unwrap());
    let (url, token) = (world.credential("http_url"), world.credential("api_token"));
    let home = home.path();
    listed(&list(home, &["--url", &url, "--token", &token], &[]));
    listed(&list(home, &["--tenant", "default"], &[("FLOVYN_URL", &url), ("FLOVYN_TOKEN", &token)]));
    // Options take precedence over variables.
    let down = [("FLOVYN_URL", "http://127.0.0.1:1"), ("FLOVYN_TOKEN", "wrong"), ("FLOVYN_TENANT", "none")];
    listed(&list(home, &["--url", &url, "--token", &token, "--tenant", "default"], &down));
    let data_dir = world.folder().join(".flovyn");
    listed(&list(home, &["--data-dir", data_dir.to_str().unwrap()], &[]));

    std::fs::write(home.join("token"), format!("{token}\n")).unwrap();
    let profiles = format!(
        "default = \"here\"\n[profiles.here]\nurl = \"{url}\"\ntoken_file = \"{}\"\n[profiles.down]\nurl = \
         \"http://127.0.0.1:1\"\ntoken = \"t\"\n",
        home.join("token").display()
    );
    write_profiles(home, &profiles, 0o600);
    listed(&list(home, &[], &[]));
    listed(&list(home, &[], &[("FLOVYN_PROFILE", "here")]));
    let named = list(home, &["--profile", "down"], &[("FLOVYN_PROFILE", "here")]);
    assert_eq!(named.code, 6, "{}", named.err);
    assert!(named.err.contains("The address is from profile 'down' in "), "{}", named.err);
}

#[test]
fn profiles_that_are_wrong_say_what_is_wrong() {
    let home = tempdir().unwrap();
    let home = home.path();
    let unknown = list(home, &["--profile", "staging"], &[]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("no profile 'staging'") && unknown.err.contains("[profiles.staging]"),
        "{}",
        unknown.err
    );
    write_profiles(home, "[profiles.production]\nurl = \"http://127.0.0.1:1\"\ntoken = \"t\"\n", 0o600);
    let unknown = list(home, &["--profile", "staging"], &[]);
    assert!(unknown.err.contains("It has production."), "{}", unknown.err);
    write_profiles(home, "[profiles.a]\nurl = \"http://127.0.0.1:1\"\ntokn = \"t\"\n", 0o600);
    let typo = list(home, &["--profile", "a"], &[]);
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("tokn") && typo.err.contains("config.toml"), "{}", typo.err);
    write_profiles(home, "[profiles.a]\nurl = \"http://127.0.0.1:1\"\ntoken = \"t\"\n", 0o644);
    let open = list(home, &["--profile", "a"], &[]);
    assert!(open.err.contains("chmod 600"), "{}", open.err);
    let missing = list(home, &["--data-dir", "nothing"], &[]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("flovyn dev --data-dir nothing"), "{}", missing.err);
}

#[test]
fn a_token_is_sent_nowhere_but_where_it_belongs() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}", listener.local_addr().unwrap());
    // In the folder of a server whose token is saved.
    let ran = world.run(&["workflow", "list", "--url", &elsewhere]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(listener.accept().is_err(), "nobody has even called");
}
