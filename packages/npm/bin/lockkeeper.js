#!/usr/bin/env node
// Runs the program of the package for this machine, which npm has installed as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { name, optionalDependencies: packages } = require("../package.json");

const isBelowNpx = process.env.npm_command === "exec";
const machine = `${process.platform}-${process.arch}`;

function fail(...lines) {
  console.error(lines.join("\n"));
  process.exit(1);
}

function find() {
  const holder = Object.keys(packages).find((each) => each.endsWith(`/${machine}`));
  if (!holder) {
    const known = Object.keys(packages).map((each) => each.split("/").pop());
    fail(
      `${name}: there is no program for ${machine}.`,
      `It runs on ${known.join(", ")}.`,
      ...(process.platform === "win32" ? ["On Windows, run it in WSL 2."] : []),
    );
  }
  try {
    return require.resolve(`${holder}/bin/lockkeeper`);
  } catch {
    fail(
      `${name}: its package ${holder} is not installed.`,
      "It is an optional dependency: install again without --omit=optional or --no-optional, on this machine.",
    );
  }
}

// The program takes the place of Node, where Node can do that (22.15, 23.11): signals, standard streams and the exit code are
// then its own.
function replace(program, args) {
  process.removeAllListeners("warning"); // that execve is experimental
  process.execve(program, [program, ...args], process.env);
}

function run(program, args) {
  const child = spawn(program, args, { stdio: "inherit" });
  // A terminal sends these to both.
  const fromTerminal = process.stdin.isTTY ? ["SIGINT", "SIGQUIT"] : [];
  for (const signal of ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR2"]) {
    process.on(signal, () => fromTerminal.includes(signal) || child.kill(signal));
  }
  // npx passes a signal to the shell between it and this process, and to nothing else.
  const parent = process.ppid;
  if (isBelowNpx) {
    setInterval(() => process.ppid === parent || child.kill("SIGTERM"), 500).unref();
  }
  child.on("error", (error) => fail(`${name}: cannot run ${program}: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

const program = find();
const args = process.argv.slice(2);
if (process.execve && !isBelowNpx) {
  replace(program, args);
} else {
  run(program, args);
}
