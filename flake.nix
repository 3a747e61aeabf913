{
  description = "Shows what every subagent of a coding agent is doing: live, and afterwards";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      forAll = nixpkgs.lib.genAttrs systems;
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      packages = forAll (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "subscope";
            inherit (manifest) version;
            src = self;
            cargoLock.lockFile = ./Cargo.lock;
            buildType = "dist";
            cargoBuildFlags = [
              "--package"
              "subscope"
              "--package"
              "subscope-team"
            ];
            # The tests need tmux and a terminal.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = pkgs.lib.optionalString (pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform) ''
              $out/bin/subscope man --dir man
              installManPage man/*.1
              for shell in bash zsh fish; do
                $out/bin/subscope completions $shell > subscope.$shell
              done
              installShellCompletion subscope.{bash,zsh,fish}
            '';
            meta = {
              description = "Shows what every subagent of a coding agent is doing: live, and afterwards";
              homepage = manifest.repository;
              license = with pkgs.lib.licenses; [
                mit
                asl20
              ];
              mainProgram = "subscope";
            };
          };
        }
      );
    };
}
