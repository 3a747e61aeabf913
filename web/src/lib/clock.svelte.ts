// The seconds that timers count.
class Clock {
  now = $state(Date.now());

  start(): void {
    setInterval(() => (this.now = Date.now()), 1000);
  }
}

export const clock = new Clock();
