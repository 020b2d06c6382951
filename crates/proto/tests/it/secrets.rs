//! Secrets in the company they are met in.

use ostler_proto::content::{RULES, Redactor};

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Redactor::new().redact(&text.replace('·', "")).text, expected);
}

#[test]
fn only_the_secret_goes() {
    check(
        "DB_URL=postgres://app:·s3cr3t@db:5432/x # db",
        "DB_URL=postgres://app:[redacted:url-password]@db:5432/x # db",
    );
    check(
        "curl -H 'Authorization: Bearer ·abcdEFGH1234' x",
        "curl -H 'Authorization: Bearer [redacted:authorization]' x",
    );
    check(
        "Server=a;Password=·Pa55;Encrypt=true",
        "Server=a;Password=[redacted:connection-password];Encrypt=true",
    );
    check(
        "{\"client_secret\": \"·a8F3kQ9zLm2XvB7n\", \"n\": 1}",
        "{\"client_secret\": \"[redacted:assigned-secret]\", \"n\": 1}",
    );
    check(
        "//r.npmjs.org/:_authToken=·npm_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
        "//r.npmjs.org/:_authToken=[redacted:npm-token]",
    );
}

#[test]
fn plain_settings_are_told_from_code() {
    check("DB_PASSWORD=·SuperSecret123", "DB_PASSWORD=[redacted:password]");
    check("JWT_SECRET=·uUOluKjSNdGzJQLjYfDnGhYSzvXBIuvn", "JWT_SECRET=[redacted:assigned-secret]");
    check("api_key: ·abcdefghijklmnop1234567890", "api_key: [redacted:assigned-secret]");
    check(
        "https://x.test/verify/·eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
        "https://x.test/verify/[redacted:jwt]",
    );
    for code in [
        "login(user=user1, password=password1)",
        "secretName: my-app-v2-config-map",
        "let token = next_token_of_line;",
        "token: getAccessTokenFromServerAsync",
    ] {
        check(code, code);
    }
}

#[test]
fn a_key_goes_whole_and_its_lines_stay() {
    let key = "a\n-----BEGIN RSA PRIVATE· KEY-----\nMIIEowIBAAKCAQEAx7Vq3J0d8K2mN5pQ\nzYw1\n-----END RSA PRIVATE KEY-----\nb\n";
    check(key, "a\n[redacted:private-key]\n\n\n\nb\n");
    let cut = "-----BEGIN PRIVATE· KEY-----\nMIIEowIBAAKCAQEAx7Vq3J0d8K2mN5pQ\nzYw1Ab3\n\nafter it, words\n";
    check(cut, "[redacted:private-key]\n\n\n\nafter it, words\n");
}

#[test]
fn a_checksum_speaks_for_a_token() {
    // Too plain to be told by its letters, but its checksum is right.
    check("ghp_·000000000000000000000000000000·2C8GjS", "[redacted:github-token]");
    check("ghp_000000000000000000000000000000000001", "ghp_000000000000000000000000000000000001");
}

#[test]
fn findings_say_where_they_were() {
    let text = "x ghp_·Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2 y".replace('·', "");
    let redacted = Redactor::new().redact(&text);
    let [found] = redacted.found.as_slice() else { panic!("{:?}", redacted.found) };
    assert_eq!((found.rule, found.span.clone()), ("github-token", 2..42));
}

#[test]
fn rules_have_names_of_their_own() {
    let mut names: Vec<&str> = RULES.into_iter().flatten().map(|rule| rule.name).collect();
    assert!(names.len() >= 35);
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
