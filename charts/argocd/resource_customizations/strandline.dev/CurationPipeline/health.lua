-- A CurationPipeline is a batch job that tries again by itself. As with a Job, it is Progressing
-- until it has ended; only the end of the whole run counts, so an attempt that failed is no reason
-- to be Degraded while another one follows.
--
-- It reads conditions, which also tell kstatus: Stalled, Suspended and Reconciling are there only
-- where they are true, and Succeeded sums up the run.
local function tell(status, condition)
  local message = condition.message
  if message == nil or message == "" then
    message = condition.reason or condition.type
  end
  return { status = status, message = message }
end

if obj.status == nil or obj.status.conditions == nil then
  return { status = "Progressing", message = "Waiting for the operator" }
end
-- Conditions of an older spec say nothing of this one: it may have a new run.
if obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "Waiting for the operator to see the latest spec" }
end

local found = {}
for _, condition in ipairs(obj.status.conditions) do
  if condition.type ~= nil then
    found[condition.type] = condition
  end
end

local function is(kind, value)
  return found[kind] ~= nil and found[kind].status == value
end

if is("Stalled", "True") then
  return tell("Degraded", found.Stalled)
end
if is("Succeeded", "True") then
  return tell("Healthy", found.Succeeded)
end
if is("Succeeded", "False") then
  return tell("Degraded", found.Succeeded)
end
if is("Suspended", "True") then
  return tell("Suspended", found.Suspended)
end
return tell("Progressing", found.Succeeded or { message = "Waiting for the operator" })
