//! Fake secrets of many shapes, and texts that only look like secrets, for tests of redaction.
//!
//! No complete secret is in this source: each is generated from a pattern, so that scanners of this repository find
//! none.

use std::{collections::HashSet, ops::Range};

use crate::random::Random;

/// A text with a made-up secret in it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What kind of secret it is.
    pub name: &'static str,
    /// The whole text.
    pub text: String,
    /// Byte range of the secret in the text.
    pub secret: Range<usize>,
}

/// Length in bytes from which a common substring is not a coincidence.
const MIN_LEAK_BYTES: usize = 10;

/// Returns the names of the samples with a part of their secret in a text.
pub fn left_in(samples: &[Sample], text: &str) -> Vec<&'static str> {
    let stretches: HashSet<&[u8]> = text.as_bytes().windows(MIN_LEAK_BYTES).collect();
    let is_left = |sample: &&Sample| {
        sample.text.as_bytes()[sample.secret.clone()]
            .windows(MIN_LEAK_BYTES)
            .any(|stretch| stretches.contains(stretch))
    };
    samples.iter().filter(is_left).map(|sample| sample.name).collect()
}

/// Name and pattern of each secret. In a pattern `<…>` encloses the secret, `~` is nothing and keeps words apart, and
/// `{A36}` is 36 characters of the alphabet `A` (see [`alphabet`]).
const SECRETS: &[(&str, &str)] = &[
    ("AWS access key id", "the key <AK~IA{u16}> of the build"),
    ("AWS temporary key id", "aws_access_key_id = <AS~IA{u16}>"),
    ("AWS secret key", "aws_secret_access_key = <{b40}>"),
    ("AWS secret key in the environment", "AWS_SECRET_ACCESS_KEY=<{b40}>"),
    ("AWS session token", "AWS_SESSION_TOKEN=<Fwo~GZX{b120}>"),
    ("GitHub personal token", "token <gh~p_{A36}>, thanks"),
    ("GitHub OAuth token", "(<gh~o_{A36}>)"),
    ("GitHub app token", "x-access-token:<gh~s_{A36}>"),
    ("GitHub fine-grained token", "<github~_pat_{A22}_{A59}>"),
    ("GitLab token", "PRIVATE-TOKEN: <gl~pat-{w20}>"),
    ("npm token", "//registry.npmjs.org/:_authToken=<np~m_{A36}>"),
    ("PyPI token", "password = <py~pi-AgEIcHlwaS5vcmc{w70}>"),
    ("Slack bot token", "Slack says <xo~xb-{d12}-{d12}-{A24}>."),
    ("Slack user token", "<xo~xp-{d12}-{d12}-{d12}-{h32}>"),
    ("Slack app token", "<xa~pp-1-A{u10}-{d13}-{h64}>"),
    ("Slack webhook", "curl https://hooks.slack~.com/services/<T{u8}/B{u8}/{A24}>"),
    ("Slack workflow webhook", "https://hooks.slack~.com/workflows/<T{u10}/A{u10}/{d18}/{A24}>"),
    ("Discord webhook", "https://discord.com/api/webhooks/<{d18}/{w68}>"),
    ("Telegram bot token", "bot<{d10}:AA{w33}>/sendMessage"),
    ("Stripe live key", "stripe.api_key = '<sk~_live_{A24}>'"),
    ("Stripe test key", "<sk~_test_{A24}>"),
    ("Stripe restricted key", "use <rk~_live_{A24}> there"),
    ("Stripe webhook secret", "<wh~sec_{A32}>"),
    ("Anthropic key", "ANTHROPIC_API_KEY=<sk~-ant-api03-{w93}AA>"),
    ("Anthropic key, short", "with <sk~-ant-{w24}> it works"),
    ("OpenAI project key", "<sk~-proj-{w74}T3Blbk~FJ{w74}>"),
    ("OpenAI key", "openai.api_key = \"<sk~-{A20}T3Blbk~FJ{A20}>\""),
    ("OpenAI service account key", "<sk~-svcacct-{w58}>"),
    ("OpenRouter key", "<sk~-or-v1-{h64}>"),
    ("Hugging Face token", "login with <h~f_{A34}>"),
    ("Groq key", "<gs~k_{A52}>"),
    ("SendGrid key", "<S~G.{w22}.{w43}>"),
    ("Mailgun key", "api:<key~-{h32}>@api.mailgun.net"),
    ("Twilio key", "<S~K{h32}>"),
    ("DigitalOcean token", "doctl auth init -t <dop~_v1_{h64}>"),
    ("Google API key", "maps?key=<AI~zaSy{w33}>&q=1"),
    ("Google OAuth token", "<ya~29.{w60}>"),
    ("Google client secret", "<GOC~SPX-{w28}>"),
    (
        "Google service account",
        "{\"type\": \"service_account\", \"private_key\": \"<-----BEGIN PRIV~ATE KEY-----\\n{b64}\\n{b64}\\n-----END PRIV~ATE KEY-----\\n>\"}",
    ),
    (
        "Azure storage key",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=<{b86}==>;EndpointSuffix=core.windows.net",
    ),
    (
        "Azure service bus key",
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=<{b43}=>",
    ),
    ("Azure client secret", "client secret <{A3}8~Q~~{A34}>"),
    (
        "Azure shared access signature",
        "https://x.blob.core.windows.net/c?sv=2022-11-02&sr=b&sig=<{A40}%3D>&se=2026",
    ),
    ("JWT", "cookie session=<ey~JhbGciOiJIUzI1NiJ9.ey~JzdWIiOiI{w24}.{w43}>; path=/"),
    ("JWT in an address", "GET /x?jwt=<ey~JhbGciOiJSUzI1NiJ9.ey~JpZCI6{w40}.{w86}>&v=1"),
    ("bearer token", "Authorization: Bearer <{A40}>"),
    ("basic authorization", "Authorization: Basic <{A28}==>"),
    ("password in a Postgres address", "postgres://shop:<{A12}>@db.internal:5432/shop"),
    ("password in an address with signs", "redis://:<p{A6}!{A6}%23>@cache:6379/0"),
    ("token in a Git address", "git clone https://x-token:<{A30}>@git.example.org/a/b.git"),
    (
        "RSA private key",
        "<-----BEGIN RSA PRIV~ATE KEY-----\n{b64}\n{b64}\n{b40}\n-----END RSA PRIV~ATE KEY----->",
    ),
    ("OpenSSH private key, cut", "<-----BEGIN OPENSSH PRIV~ATE KEY-----\n{b70}\n{b50}>"),
    ("line of .env", "DATABASE_PASSWORD=<{A14}>"),
    ("quoted line of .env", "export SESSION_SECRET=\"<{b32}>\""),
    ("password in YAML", "  password: <{A5}-{A6}!>"),
    ("password in JSON", "{\"user\":\"root\",\"password\":\"<{A12}>\"}"),
    ("API key in code", "const apiKey = '<{A32}>';"),
    ("password on a command line", "mysqldump --password=<{A12}> shop"),
    ("age key", "<AGE-SEC~RET-KEY-1{Q58}>"),
    ("Vault token", "VAULT_TOKEN=<hv~s.{w90}>"),
    ("Databricks token", "<da~pi{h32}>"),
    ("Linear key", "<lin~_api_{A40}>"),
    ("Shopify token", "X-Shopify-Access-Token: <shp~at_{h32}>"),
    ("Terraform cloud token", "token = \"<{A14}.atlas~v1.{w64}>\""),
    ("New Relic key", "NEW: <NR~AK-{u27}>"),
    ("Figma token", "X-Figma-Token: <fi~gd_{w40}>"),
    ("Docker token", "docker login -p <dck~r_pat_{w27}>"),
    ("Supabase token", "<sb~p_{h40}>"),
    ("Okta token", "Authorization: SS~WS <00{w40}>"),
    ("session cookie", "Cookie: lang=de; sessionid=<{A32}>"),
    ("password for ssh", "sshpass -p '<{A14}>' ssh a@b"),
    ("password for MySQL", "mysql -u root -p<{A14}> shop"),
    ("pass in TOML", "pass = \"<{A14}>\""),
    ("key of a wireless network", "psk=<{A20}>"),
    ("password in a sentence", "the root password is <{A6}7{A6}>!"),
    ("Firebase key", "key=<AA~AA{A7}:APA91b{w134}>"),
    ("Discord bot token", "the bot's token <M{A23}.{A6}.{w38}>"),
    ("Pinecone key", "<pc~sk_{w70}>"),
    ("CircleCI token", "<CCI~PAT_{A22}_{h40}>"),
    ("Netlify token", "<nf~p_{A36}>"),
    ("AWS secret key as an argument", "aws configure set aws_secret_access_key <{b40}>"),
    ("key that a shell is given", "set -x STRIPE_KEY <{A32}>"),
    (
        "PGP private key",
        "<-----BEGIN PGP PRIV~ATE KEY BLOCK-----\n\n{b64}\n{b64}\n-----END PGP PRIV~ATE KEY BLOCK----->",
    ),
    ("WireGuard key", "PrivateKey = <{b43}=>"),
    ("netrc line", "machine git.example.org login ci password <{A16}>"),
];

/// Texts without a secret, each of which looks like one to some rule.
const LOOK_ALIKES: &[&str] = &[
    "commit {h40} of main",
    "sha256:{h64}",
    "integrity sha512-{b86}==",
    "session 59d3cea2-4a1f-4c55-9a7e-0d5a8f2c1b3e ended",
    "toolu_01{A22} has no result",
    "msg_01{A22} req_011{A21}",
    "agent a{h16} was asked",
    "etag: W/\"{h32}\"",
    "token: string",
    "password: str = None",
    "const token = await getToken(user);",
    "apiKey: process.env.OPENAI_API_KEY,",
    "api_key = os.environ[\"API_KEY\"]",
    "API_KEY=${API_KEY}",
    "API_KEY=<your-api-key>",
    "API_KEY=your_api_key_here",
    "password=\"$DB_PASSWORD\"",
    "export TOKEN=$(cat token.txt)",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $GITHUB_TOKEN",
    "Authorization: Bearer ${{ secrets.DEPLOY_TOKEN }}",
    "the bearer authentication-middleware is tested",
    "postgres://user:$PASSWORD@localhost/shop",
    "https://example.org:8080/path?x=1@2",
    "git@github.com:subscope/subscope.git",
    "mailto:someone@example.org",
    "MAX_TOKENS=4096",
    "TOKEN_LIMIT=200000",
    "KEY_FILE=/etc/ssl/private/server.key",
    "SECRET_NAME=database-credentials",
    "PASSWORD_MIN_LENGTH=12",
    "MONKEY=banana123456",
    "KEYBOARD_LAYOUT=de-latin1-nodeadkeys",
    "PUBLIC_KEY=ssh-ed25519",
    "AUTH_METHOD=oauth2-device-code",
    "input_tokens: 48211, output_tokens: 1200",
    "\"cache_key\": \"user-profile-page-v2\"",
    "\"primary_key\": \"customer_order_id\"",
    "\"key\": \"Enter\", \"code\": \"Enter\"",
    "sk-learn-contrib-pipelines-and-friends",
    "pip install sk-dist scikit-learn",
    "the tests hf_transfer and hf_hub_download",
    "npm_config_registry=https://registry.npmjs.org/",
    "npm_lifecycle_event=build",
    "the risk_assessment_framework_for_agents",
    "import { SecretManager } from \"@aws-sdk/client-secrets-manager\"",
    "def reset_password(self, new_password: str) -> None:",
    "label: \"Password\", placeholder: \"Forgot your password?\"",
    "secret: keyof typeof secretNames;",
    "the password is required and must be long enough",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n{b64}\n-----END CERTIFICATE-----",
    "data:image/png;base64,{b120}",
    "/usr/share/doc/libsecret-1-0/changelog.Debian.gz",
    "https://hooks.slack.com/docs",
    "src/auth/token/refresh-token-handler.test.ts:12:5",
    "access_token_expires_in = 3600",
    "v1.{d2}.{d2}-alpha.{d4}+build.{h7}",
    "passwordless login with passkeys, see docs/passkeys.md",
    "AKIA is how such ids begin",
    "ghp_ and gho_ are prefixes",
    "token = tokens[i + 1]; key = keys[j - 1]",
    "session=none; sid=short; theme=dark-mode-for-everybody",
    "the test suites: pass: 132, fail: 0, skipped: 4",
    "\"pass\": \"all-checks-green\", \"pw\": null",
    "fc-cache -f && fc-list | grep Mono",
    "mysql -u root --protocol=tcp shop < dump.sql",
    "the password is checked by check_password_v2 in auth.py",
    "git config set user.signingkey ~/.ssh/id_ed25519.pub",
    "set -e; export PATH=/usr/local/bin; token_count=$((a + 1))",
    "rsync --password-file=/etc/rsync.pass a b",
];

/// Returns the samples of secrets.
pub fn secrets() -> Vec<Sample> {
    let made = SECRETS.iter().zip(1..).map(|((name, pattern), seed)| {
        let text = made(pattern, seed);
        let (begin, end) = (text.find('\u{2}').unwrap_or(0), text.find('\u{3}').unwrap_or(text.len()));
        let text = text.replace(['\u{2}', '\u{3}'], "");
        Sample { name, text, secret: begin..end - 1 }
    });
    made.collect()
}

/// Returns texts that hold no secret.
pub fn look_alikes() -> Vec<String> {
    let made = LOOK_ALIKES.iter().zip(1_000..).map(|(pattern, seed)| fill(pattern, seed));
    made.collect()
}

/// Makes a text of a pattern; marks enclose the secret.
fn made(pattern: &str, seed: u64) -> String {
    let marked = pattern.replace('<', "\u{2}").replace('>', "\u{3}");
    fill(&marked, seed).replace("~~", "\u{1}").replace('~', "").replace('\u{1}', "~")
}

fn fill(pattern: &str, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let asked = behind.find('}').and_then(|end| {
            let (kind, length) = behind[1..end].split_at_checked(1)?;
            Some((alphabet(kind)?, length.parse::<usize>().ok()?, end + 1))
        });
        match asked {
            Some((letters, length, taken)) => {
                out.extend((0..length).map(|_| char::from(random.pick(letters))));
                rest = &behind[taken..];
            }
            None => {
                out.push('{');
                rest = &behind[1..];
            }
        }
    }
    out + rest
}

/// The characters of a kind: letters and digits, those and `_-`, base64, hexadecimal, capitals and digits, digits,
/// Bech32's capitals.
fn alphabet(kind: &str) -> Option<&'static [u8]> {
    const ALL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567abcdefghijklmnopqrstuvwxyz0189";
    const WORD: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const BASE64: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";
    match kind {
        "A" => Some(ALL),
        "w" => Some(WORD),
        "b" => Some(BASE64),
        "h" => Some(b"0123456789abcdef"),
        "u" => Some(&ALL[..32]),
        "d" => Some(b"1234567890"),
        "Q" => Some(b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
        _ => None,
    }
}
