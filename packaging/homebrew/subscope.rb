# Written by `cargo xtask dist`.
class Subscope < Formula
  desc "Shows what every subagent of a coding agent is doing: live, and afterwards"
  homepage "https://github.com/subscope/subscope"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/subscope/subscope/releases/download/v@VERSION@/subscope-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256 aarch64-apple-darwin@"
    end
    on_intel do
      url "https://github.com/subscope/subscope/releases/download/v@VERSION@/subscope-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256 x86_64-apple-darwin@"
    end
  end
  on_linux do
    on_arm do
      url "https://github.com/subscope/subscope/releases/download/v@VERSION@/subscope-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256 aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "https://github.com/subscope/subscope/releases/download/v@VERSION@/subscope-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256 x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "subscope", "subscope-team"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/subscope.bash" => "subscope"
    zsh_completion.install "completions/_subscope"
    fish_completion.install "completions/subscope.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/subscope --version")
    assert_match version.to_s, shell_output("#{bin}/subscope-team --version")
    assert_match "Explore", shell_output("#{bin}/subscope demo --plain --speed 10000")
  end
end
