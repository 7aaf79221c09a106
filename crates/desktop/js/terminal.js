export function openTerminal() {}
